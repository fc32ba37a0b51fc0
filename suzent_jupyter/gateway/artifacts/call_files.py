"""Large files in the parameters of a call: kept before it is sent, or put inside where a node knows no references."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.artifacts import FEATURE, ArtifactReference
from ...protocol.errors import SuzentError
from ...protocol.wire import decode, encode
from ..calls import FRAME_HEAD_BYTES
from ..principals import Principal
from ..session import NodeSession
from .hoisting import Inline, Named, find, may_hold

if TYPE_CHECKING:
    from ...protocol.limits import Limits
    from .artifacts import Artifacts
    from .rows import Kept


class Ready(NamedTuple):
    """Parameters as a node is to get them.

    Attributes
    ----------
    addresses : tuple of str
        The absolute addresses in them that are this gateway's own word; others are their caller's.
    """

    params: bytes | memoryview
    addresses: tuple[str, ...] = ()


class CallFiles:
    """Makes parameters ready for a node.

    Parameters
    ----------
    artifacts : Artifacts
        Keeps what is large.
    limits : Limits
        ``hoist_bytes``, and what a frame holds.
    """

    def __init__(self, artifacts: Artifacts, limits: Limits) -> None:
        self._artifacts = artifacts
        self._limits = limits

    def needed(self, session: NodeSession, params: bytes | memoryview) -> bool:
        """Tell whether :meth:`ready` is to be asked; it takes time, and nearly no call needs it."""
        return may_hold(params, self._hoist_bytes(session))

    def _hoist_bytes(self, session: NodeSession) -> float | None:
        return self._limits.hoist_bytes if takes_references(session) else None

    async def ready(self, principal: Principal, session: NodeSession, params: bytes | memoryview) -> Ready:
        """Return the parameters as this node is to get them; the very same if there is nothing to change.

        Raises
        ------
        SuzentError
            ``invalid_params`` for what is no base64, ``artifact_unknown``, ``artifact_corrupt``, ``too_large``,
            ``artifact_store_full``, ``artifact_store_failed``. Nothing may be sent then.
        """
        value, inline, named = await asyncio.to_thread(_read, params, self._hoist_bytes(session))
        own = principal.account if principal.grant is None else ""
        found = [(each, kept) for each in named if (kept := await self._artifacts.find(own, each.reference))]
        if not inline and not found:
            return Ready(params)
        addresses: tuple[str, ...] = ()
        if takes_references(session):
            for reference, kept in found:
                await self._renew(reference, kept)
            await self._hoist(principal.account, inline)
            urls = [each.holder[each.key]["url"] for each, _ in found]
            urls += [each.holder[each.key]["url"] for each in inline]
            addresses = tuple(dict.fromkeys(url for url in urls if not url.startswith("/")))
        else:
            await self._put_inside(found, len(params), params_limit(session, self._limits))
        return Ready(await asyncio.to_thread(encode, value), addresses)

    async def _renew(self, each: Named, kept: Kept) -> None:
        said = each.reference
        new = await self._artifacts.renew(kept, said["media_type"], _text(said.get("name")))
        new.data_url = said.get("data_url") is True
        each.holder[each.key] = {**said, **new.model_dump()}

    async def _hoist(self, account: str, inline: list[Inline]) -> None:
        known: dict[tuple[str, int], ArtifactReference] = {}  # the same text twice is one upload
        for each in inline:
            same = known.get((each.text, each.start))
            if same is None:
                same, _ = await self._artifacts.keep(
                    account,
                    self._artifacts.iterate(each.pieces()),
                    media_type=each.media_type,
                    name=each.name,
                )
                known[each.text, each.start] = same
            own = same.model_copy(update={"data_url": each.data_url})
            if not each.data_url:  # equal content may go by several names
                own.media_type, own.name = each.media_type, self._artifacts.clean_name(each.name)
            each.holder[each.key] = {**each.more, **own.model_dump()}

    async def _put_inside(self, found: list[tuple[Named, Kept]], size: int, limit: float) -> None:
        size += sum(kept.size * 4 // 3 for _, kept in found)
        if size > limit:
            raise SuzentError(
                "too_large", f"With its files inside, the call takes {size:,} bytes; this node takes {int(limit):,}."
            )
        for each, kept in found:
            content = await self._artifacts.base64(kept)
            media_type, name = each.reference["media_type"], _text(each.reference.get("name"))
            if each.reference.get("data_url") is True:
                each.holder[each.key] = f"data:{media_type};base64,{content}"
            else:
                part: dict[str, Any] = {"media_type": media_type, "base64": content}
                each.holder[each.key] = {**part, "name": name} if name else part


def takes_references(session: NodeSession) -> bool:
    """Tell whether a node fetches references by itself."""
    return session.features is not None and FEATURE in session.features


def params_limit(session: NodeSession, limits: Limits) -> float:
    """Return how many bytes of parameters a node takes: those of a frame, with something around them."""
    return limits.frame_bytes - FRAME_HEAD_BYTES if session.features is not None else limits.plain_params_bytes


def _read(params: bytes | memoryview, hoist_bytes: float | None) -> tuple[Any, list[Inline], list[Named]]:
    value = decode(params)
    return value, *find(value, hoist_bytes)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
