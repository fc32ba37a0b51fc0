"""``jupyter suzent …``: the gateway and its devices from a terminal."""


def main() -> None:
    """Run the command line; the console script ``jupyter-suzent``."""
    from .app import app

    app()
