"""What a call brought back: data, image, frame, text, files, and how it is shown."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_lines
from . import wire
from .errors import CapabilityFailed, ContentError
from .plain import human_bytes, one_line
from .sniff import IMAGES, normal, shown_as, suffix

if TYPE_CHECKING:
    import pandas as pd
    from PIL.Image import Image

TEXT_CHARS = 20_000  # of pretty JSON shown; more would make the notebook heavy without being read
JSON_BYTES = 1_000_000  # above it no application/json is put into the notebook
MEDIA_BYTES = 25 * 1024 * 1024  # an image or sound that is shown; larger ones can still be saved
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


class Binary:
    """Bytes that came inside a result.

    Attributes
    ----------
    media_type : str
        As the device claims it.
    data : bytes
        The content.
    name : str
        The file name the device proposes; "" if none. Never used as a path.
    """

    __slots__ = ("data", "media_type", "name")

    def __init__(self, data: bytes, media_type: str = "application/octet-stream", name: str = "") -> None:
        self.data = data
        self.media_type = media_type
        self.name = name

    def as_json(self) -> dict[str, str]:
        """Return the protocol's ``{"media_type", "base64", "name"?}``, so that it can be passed on as a parameter."""
        fields = {"media_type": self.media_type, "base64": base64.b64encode(self.data).decode("ascii")}
        return {**fields, "name": self.name} if self.name else fields

    def facts(self) -> dict[str, Any]:
        """Return what is said of it where its content has no place."""
        fields: dict[str, Any] = {"media_type": self.media_type, "bytes": len(self.data)}
        return {**fields, "name": self.name} if self.name else fields

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binary) and (self.data, self.media_type) == (other.data, other.media_type)

    def __hash__(self) -> int:
        return hash((self.data, self.media_type))

    def __repr__(self) -> str:
        name = f" {one_line(self.name, 80)!r}" if self.name else ""
        return f"<{one_line(self.media_type, 60)}{name}, {human_bytes(len(self.data))}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from .show import binary_bundle

        return binary_bundle(self)


class Result:
    """The answer to one call; as the last expression of a cell it shows itself.

    Attributes
    ----------
    success : bool
        Whether the device carried the command out.
    error : str or None
        What it said otherwise.
    node, command : str
        What was called.
    seconds : float
        From the call to its result, as seen from here.
    """

    def __init__(
        self,
        frame: wire.Incoming,
        node: str,
        command: str,
        seconds: float,
        read: Callable[[Any], Any] | None = None,
    ) -> None:
        self.success = frame.success
        self._reason = frame.error
        reason = str(frame.error or "The device gave no reason.")
        self.error: str | None = None if frame.success else clean_lines(reason, 2000)
        self.node = node
        self.command = command
        self.seconds = seconds
        self._raw = frame.result
        self._data: Any = _UNREAD
        self._read = read

    @property
    def raw(self) -> bytes:
        """The result as the JSON bytes that came."""
        return bytes(self._raw)

    def body(self) -> dict[str, Any]:
        """Return ``{"success", "result", "error"}`` as it came, binary parts as base64."""
        return {"success": self.success, "result": wire.decode(self._raw), "error": self._reason}

    @property
    def data(self) -> Any:
        """The result as Python objects, binary parts as :class:`Binary`. Text stands as the device sent it.

        Raises
        ------
        CapabilityFailed
            The device reported a failure.
        """
        self.check()
        return self._value()

    def _value(self) -> Any:
        if self._data is _UNREAD:
            value = unpack(wire.decode(self._raw))
            self._data = value if self._read is None else self._read(value)
        return self._data

    def check(self) -> Result:
        """Return this result, or raise :class:`~.errors.CapabilityFailed` if the device reported a failure."""
        if not self.success:
            raise CapabilityFailed(
                f"{one_line(self.command)} failed on {one_line(self.node)}: {one_line(self.error, 1000)}", result=self
            )
        return self

    @property
    def elapsed(self) -> pd.Timedelta:
        """How long the call took, as seen from here."""
        import pandas as pd

        return pd.Timedelta(seconds=self.seconds)

    @property
    def binaries(self) -> list[Binary]:
        """Every binary part, in order."""
        found: list[Binary] = []
        _collect(self.data, found)
        return found

    @property
    def image(self) -> Image:
        """The first raster image (PNG, JPEG, GIF, WebP) as a PIL image.

        Raises
        ------
        ContentError
            There is none, or it can't be read.
        """
        from PIL import Image, UnidentifiedImageError

        for part in self.binaries:
            if normal(part.media_type) in IMAGES and shown_as(part.media_type, part.data):
                try:
                    image = Image.open(BytesIO(part.data), formats=("PNG", "JPEG", "GIF", "WEBP"))
                    image.load()
                except (
                    UnidentifiedImageError,
                    Image.DecompressionBombError,
                    OSError,
                    ValueError,
                    SyntaxError,
                ) as error:
                    raise ContentError(f"The image can't be read: {one_line(error)}.") from None
                return image
        raise ContentError(f"The result of {self.command} holds no image.", hint="`.data` shows what it holds.")

    @property
    def frame(self) -> pd.DataFrame:
        """The result as a frame: from records, a dict of columns, or ``{"columns", "data"}``.

        Columns named like times, or holding ISO 8601 text, become UTC timestamps; control characters are removed.

        Raises
        ------
        ContentError
            It is not a table.
        """
        from .frames import from_data

        return from_data(self.data)

    @property
    def text(self) -> str:
        """The result as text: itself, a text file's content, else pretty JSON; control characters are removed."""
        data = self.data
        if isinstance(data, Binary) and data.media_type.startswith("text/"):
            return clean_lines(data.data.decode("utf-8", "replace"))
        if isinstance(data, str):
            return clean_lines(data)
        if isinstance(data, dict) and isinstance(data.get("text"), str):
            return clean_lines(data["text"])
        return clean_lines(pretty(data))

    def save(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Path:
        """Write the result to a file and return its path.

        Parameters
        ----------
        path : path, optional
            A file, or a directory to put it in; the working directory by default. A name the device proposes is used
            for the last part only, cleaned, with the ending its content calls for.
        overwrite : bool
            Replace a file that exists.

        Raises
        ------
        FileExistsError
            The file exists and ``overwrite`` is false.
        """
        binaries = self.binaries
        wanted = Path(path) if path is not None else Path()
        if binaries:
            content, ending, proposed = (
                binaries[0].data,
                suffix(binaries[0].media_type, binaries[0].data),
                binaries[0].name,
            )
        elif wanted.suffix == ".csv":
            content, ending, proposed = self.frame.to_csv(index=False).encode(), ".csv", ""
        elif isinstance(self.data, str):
            content, ending, proposed = self.data.encode("utf-8", "replace"), ".txt", ""
        else:
            content, ending, proposed = (pretty(self.data) + "\n").encode(), ".json", ""
        if path is None or wanted.is_dir():
            wanted = wanted / safe_name(proposed or self.command, ending)
        with wanted.open("wb" if overwrite else "xb") as stream:
            stream.write(content)
        return wanted

    def __repr__(self) -> str:
        state = "ok" if self.success else f"failed: {one_line(self.error)}"
        return f"<Result of {one_line(self.command)} on {one_line(self.node)}: {state}, {self.seconds * 1000:.0f} ms>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from .show import result_bundle

        return result_bundle(self)


_UNREAD: Any = object()


def unpack(value: Any) -> Any:
    """Return JSON with every ``{"media_type", "base64", "name"?}`` turned into a :class:`Binary`."""
    if isinstance(value, dict):
        if "base64" in value and value.keys() <= {"media_type", "base64", "name"}:
            content, kind, name = value["base64"], value.get("media_type"), value.get("name")
            if isinstance(content, str) and isinstance(kind, str):
                try:
                    return Binary(base64.b64decode(content, validate=True), kind, name if isinstance(name, str) else "")
                except (binascii.Error, ValueError):
                    return value
        return {key: unpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unpack(item) for item in value]
    return value


def _collect(value: Any, found: list[Binary]) -> None:
    if isinstance(value, Binary):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)


def summarised(value: Any) -> Any:
    """Return JSON in which every :class:`Binary` is ``{"media_type", "bytes", "name"?}``."""
    if isinstance(value, Binary):
        return value.facts()
    if isinstance(value, dict):
        return {key: summarised(item) for key, item in value.items()}
    if isinstance(value, list):
        return [summarised(item) for item in value]
    return value


def pretty(value: Any) -> str:
    """Return indented JSON with binary parts summarised."""
    return json.dumps(summarised(value), indent=2, ensure_ascii=False)


def safe_name(proposed: str, ending: str) -> str:
    """Return a file name made of what a device proposes: its last part, cleaned for file systems and shells."""
    last = clean_lines(proposed.replace("\\", "/")).rpartition("/")[2]
    stem = re.sub(r"[^\w .()+-]", "_", last.removesuffix(ending), flags=re.UNICODE).strip(" .-")[:80].strip(" .")
    if not stem or _RESERVED.fullmatch(stem):
        stem = f"result_{stem}" if stem else "result"
    return stem.encode("utf-8")[:180].decode("utf-8", "ignore") + ending
