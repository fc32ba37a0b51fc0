"""What the routes of kept files do: take one as it comes, and send one."""

from __future__ import annotations

from ..protocol.artifacts import ArtifactResponse
from ..protocol.errors import SuzentError
from .request import Request
from .stream import Stream


async def serve_artifact(request: Request) -> Stream:
    """Send a file to whoever has its address, until that expires."""
    raise SuzentError("artifact_unknown", "There is no such file, or not any more.")


async def keep_artifact(request: Request) -> ArtifactResponse:
    """Keep the body; ``?name=`` and the content type say what it is."""
    raise SuzentError("stopping", "Not yet.")
