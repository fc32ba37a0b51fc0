"""Files too large to travel inside a frame: they are kept once, and a reference goes in their place."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from .rest import Body

#: What a node announces that fetches references by itself; to others files go inside the frame.
FEATURE = "artifacts"
PATH = "/artifacts/"


class ArtifactReference(Body):
    """What stands in place of ``{media_type, base64, name?}``.

    Attributes
    ----------
    url : str
        Where it can be fetched until ``expires_at``: absolute, or relative to the gateway's root (``/artifacts/…``).
    size : int
        Bytes.
    sha256 : str
        Hexadecimal, of the content; whoever fetches it compares.
    data_url : bool
        Whether text stood there, a ``data:`` URL: whoever puts the content back writes it so again.
    """

    url: str
    media_type: str
    name: str = ""
    size: int
    sha256: str
    expires_at: str = ""
    data_url: bool = False


class ArtifactResponse(Body):
    """``POST /artifacts``, whose body is the file itself: kept."""

    success: bool = True
    artifact: ArtifactReference
    created: bool = Field(default=True, description="False where the same content was there already.")


def is_reference(value: Any) -> bool:
    """Tell whether a JSON value is an :class:`ArtifactReference`, by its fields."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("url"), str)
        and isinstance(value.get("sha256"), str)
        and isinstance(value.get("size"), int)
        and isinstance(value.get("media_type"), str)
        and "base64" not in value
    )
