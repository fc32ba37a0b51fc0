from suzent_jupyter.node.docstring import read_docstring


def test_numpy_style() -> None:
    summary, params = read_docstring(
        """Take a photo
        with the camera.

        More about it.

        Parameters
        ----------
        format : str
            Format of the
            image.
        width, height : int
            Size in pixels.
        *rest
            More.

        Returns
        -------
        bytes
            The photo.
        """
    )
    assert summary == "Take a photo with the camera."
    assert params == {
        "format": "Format of the image.",
        "width": "Size in pixels.",
        "height": "Size in pixels.",
        "rest": "More.",
    }


def test_google_style() -> None:
    summary, params = read_docstring(
        """Move.

        Args:
            position (float): Where to:
                in millimetres.
            speed: How fast.

        Returns:
            where: it is
        """
    )
    assert summary == "Move."
    assert params == {"position": "Where to: in millimetres.", "speed": "How fast."}


def test_sphinx_style() -> None:
    assert read_docstring("Move.\n\n:param float x: Where.\n:param y: How.")[1] == {"x": "Where.", "y": "How."}


def test_nothing_and_nonsense() -> None:
    assert read_docstring(None) == ("", {})
    assert read_docstring("Parameters\n----------") == ("Parameters ----------", {})
    assert read_docstring("Args:") == ("", {})
