"""What the routes of prompts and files between gateways do."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...gateway.audit import Row
from ...gateway.peer_files import PeerFile, PeerFiles, file_unknown
from ...gateway.principals import NOBODY
from ...protocol.chat import ChatStopRequest, StopResponse
from ...protocol.errors import SuzentError
from ...protocol.files import attachment_header, named_in, safe_media_type
from ...protocol.peers import TriggerRequest
from ...protocol.sse import ENDS, event_bytes, run_error
from ..auth import has_browser_headers, presented
from ..channel import read_prompt
from ..request import Request
from ..stream import Stream
from .offered import OfferedFile, look_at
from .pieces import DiskPieces, PeerPieces

if TYPE_CHECKING:
    from ...gateway import Gateway, Principal
    from ...gateway.peers import KeptPeer
    from ..peering.peering import Peering

_EVENT_ID = re.compile(r"[\x21-\x7e]{1,128}")
_FILE_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


async def trigger(request: Request) -> Stream:
    """Run a prompt on a peer and stream its answer.

    What can be said before the peer is asked is an error; from then on what goes wrong is the stream's last event.
    """
    peering, limits = request.service.peering, request.gateway.limits
    peer = await peering.driven(request.principal, request.path["id"])
    wanted = request.model(TriggerRequest)
    prompt = read_prompt(request, "prompt", wanted.prompt)
    last = request.headers.get("Last-Event-ID", "").strip()
    if last and not _EVENT_ID.fullmatch(last):  # another turn is not what such a caller wants
        raise SuzentError("invalid_request", "`Last-Event-ID` must be the id of an event, such as 3f2a:7.")
    files = await look_at(request.gateway, request.principal, [] if last else wanted.attachments)
    base_url = await _own_url(peering, peer) if files else ""
    body: dict[str, object] = {"content": prompt}
    if wanted.chat_id:
        body["chat_id"] = wanted.chat_id
    pieces = _answer(request.gateway, request.principal, peering, peer, body, files, base_url, last)
    return Stream(pieces, heartbeat=limits.heartbeat)


async def _own_url(peering: Peering, peer: KeptPeer) -> str:
    """Return where a peer fetches files from: the listener alone, since peers take no other path."""
    own = await peering.own_url(peer)
    if not own.url or own.url.count("/") > 2:
        raise SuzentError(
            "attachment_refused",
            f"{peer.name} can't fetch files from here: this gateway's listener is not open to it.",
            hint="`%suzent config node_lan_bind true`, then restart the server; or send the prompt without files.",
        )
    return own.url


async def _answer(
    gateway: Gateway,
    principal: Principal,
    peering: Peering,
    peer: KeptPeer,
    body: dict[str, object],
    files: list[OfferedFile],
    base_url: str,
    last_event_id: str,
) -> AsyncGenerator[bytes]:
    offers: list[PeerFile] = []
    begun, outcome = time.monotonic(), "left"
    try:
        with peering.noticing(peer):
            http, token = await peering.http(), await peering.token(peer)
        from ...peers.trigger import HangUp, trigger_events

        for each in files:
            offer, secret = gateway.peer_files.offer_transfer(
                each.file, account=principal.account, name=each.name, media_type=each.media_type
            )
            offers.append(offer)
            reference = offer.reference()
            reference.url, reference.token = base_url + reference.url, secret
            body.setdefault("attachments", []).append(reference.model_dump())  # type: ignore[attr-defined]
        hang_up = HangUp()
        events = trigger_events(
            http, peer.base_url, token, body, gateway.limits, name=peer.name, last_event_id=last_event_id,
            hang_up=hang_up,
        )  # fmt: skip
        with peering.noticing(peer), peering.while_kept(peer, hang_up):
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.data["type"] in ENDS:
                        outcome = str(event.data.get("code", "ok"))
                        if outcome == "revoked":  # our own hint for it is for its operator
                            event.data.setdefault("hint", peering.way_back(peer))
                    yield event_bytes(event.data, event.id)
    except SuzentError as error:
        outcome = error.code
        failed = run_error(error.code, error.message)
        yield event_bytes({**failed, "hint": error.hint} if error.hint else failed)
    finally:
        for offer in offers:
            gateway.peer_files.withdraw(offer)
        row = Row(principal.account, principal.actor, "peer.trigger", node=peer.name, outcome=outcome)
        row.duration_ms = round((time.monotonic() - begun) * 1000, 1)
        row.detail = {"peer_id": peer.peer_id, "files": [offer.name for offer in offers]}
        gateway.audit.record(row)


async def stop_peer(request: Request) -> StopResponse:
    """Stop our turn on a peer; `chat_id` names one other than that of its usual conversation."""
    peering, principal = request.service.peering, request.principal
    chat_id = request.model(ChatStopRequest).chat_id
    peer, outcome = await peering.driven(principal, request.path["id"]), "ok"
    try:
        with peering.noticing(peer):
            http, token = await peering.http(), await peering.token(peer)
            from ...peers.trigger import stop_turn

            stopped = await stop_turn(
                http, peer.base_url, token, name=peer.name, chat_id=chat_id, device_id=peer.own_device_id
            )
            return StopResponse(agent_id=stopped)
    except SuzentError as error:
        outcome = error.code
        raise
    finally:
        row = Row(principal.account, principal.actor, "peer.stop", node=peer.name, outcome=outcome)
        row.detail = {"peer_id": peer.peer_id}
        request.gateway.audit.record(row)


async def serve_file(request: Request) -> Stream:
    """Serve a file to a peer: to the bearer of the file's own token, or of a token it was made for.

    Whatever is wrong is the same refusal; what is no token of ours counts as an attempt.
    """
    await request.gateway.ready.wait()
    files = request.gateway.peer_files
    offer, reader = await _offer(request, files)
    files.begin_download(offer)
    try:
        file = await asyncio.to_thread(offer.file.open)
    except OSError:
        files.withdraw(offer)
        raise file_unknown() from None
    size = offer.file.size
    row = Row(offer.account, reader.actor, "file.serve", node_id=offer.device_id)
    row.detail = {"name": offer.name, "size": size, "remote": request.remote}
    request.gateway.audit.record(row)
    valid = partial(request.gateway.still_speaks, reader)
    return Stream(
        DiskPieces(file, size), offer.media_type, _headers(offer.name, size), valid=valid, holder=reader.credential_id
    )


async def _offer(request: Request, files: PeerFiles) -> tuple[PeerFile, Principal]:
    """Return what is asked for, and who asks."""
    sender = request.sender
    token = _bearer(request)
    if sender is None or not token:
        raise file_unknown()
    file_id = request.path["file"]
    offer = files.of_token(file_id, token)
    if offer is not None:
        sender.take_note()
        return offer, replace(NOBODY, actor="transfer")
    try:
        principal = await sender.principal_of(token)
    except SuzentError as error:
        if error.code == "too_many_attempts":
            raise
        raise file_unknown() from None
    offer = files.of_principal(file_id, principal)
    if offer is None:
        raise file_unknown()
    return offer, principal


def _bearer(request: Request) -> str:
    """Return a request's token: a file's own has no form that could be told from others'."""
    from_a_page = has_browser_headers(request.headers)
    found = presented(request.headers)
    return next((token for token, is_password in found if token and not (is_password and from_a_page)), "")


async def proxy_file(request: Request) -> Stream:
    """Fetch a file from a peer."""
    peering, limits = request.service.peering, request.gateway.limits
    peer = await peering.driven(request.principal, request.path["id"])
    file_id = request.path["file"]
    if not _FILE_ID.fullmatch(file_id):
        raise file_unknown()
    with peering.noticing(peer):
        http, token = await peering.http(), await peering.token(peer)
        url = f"{peer.base_url}/nodes/peer-files/{quote(file_id, safe='')}"
        pieces = await PeerPieces.open(http, url, token, peer.name, limits)
    name = named_in(pieces.headers.get("content-disposition", "")) or file_id
    media_type = safe_media_type(pieces.headers.get("content-type", ""))
    return Stream(pieces, media_type, _headers(name, pieces.size))


def _headers(name: str, size: int | None) -> dict[str, str]:
    headers = {"Content-Disposition": attachment_header(name)}
    if size is not None:
        headers["Content-Length"] = str(size)
    return headers
