"""Files of this machine that an operator sends along with a prompt for a peer."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...gateway.peer_files import FileOnDisk
from ...protocol.errors import SuzentError
from ...protocol.files import OCTETS, clean_file_name
from ...protocol.limits import MIB
from ...protocol.paths import local_path
from ...protocol.peers import PromptAttachment
from ...protocol.text import clean_text

if TYPE_CHECKING:
    from ...gateway import Gateway, Principal


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """One file as it was found, and what the peer is told of it."""

    file: FileOnDisk
    name: str
    media_type: str


async def look_at(gateway: Gateway, principal: Principal, items: list[PromptAttachment]) -> list[OfferedFile]:
    """Return the files that are named, looked at off the event loop.

    Raises
    ------
    SuzentError
        ``attachment_refused``, which file and why.
    """
    if not items:
        return []
    limits = gateway.limits
    if principal.account != gateway.account:  # the files are readable to whoever runs the gateway
        raise SuzentError("attachment_refused", "Only whoever runs this gateway can send its files.")
    if len(items) > limits.attachments:
        raise SuzentError("attachment_refused", f"{int(limits.attachments)} files may go with a prompt at most.")
    return await asyncio.to_thread(lambda: list(_look(items, int(limits.attachment_bytes))))


def _look(items: list[PromptAttachment], most: int) -> Iterable[OfferedFile]:
    total = 0
    for item in items:
        shown = f"'{clean_text(item.path, 200)}'"
        try:
            path = local_path(item.path, Path.exists)
            if not path.is_absolute():
                raise ValueError("give its whole path, since this gateway's directory may be another")
            found = FileOnDisk.look(path)
        except FileNotFoundError:
            raise _refused(shown, "there is no such file on the gateway's machine") from None
        except OSError as error:
            raise _refused(shown, (error.strerror or str(error) or "it can't be read").lower()) from None
        except (ValueError, RuntimeError) as error:  # a null character, or a home that is unknown
            raise _refused(shown, str(error)) from None
        total += found.size
        if total > most:
            raise _refused(shown, f"the files are larger than {most / MIB:g} MiB together")
        name = clean_file_name(item.name or found.path.name)
        media_type = item.media_type or mimetypes.guess_type(name)[0] or OCTETS
        yield OfferedFile(found, name, media_type)


def _refused(shown: str, why: str) -> SuzentError:
    return SuzentError("attachment_refused", f"{shown} can't be sent: {why}.")
