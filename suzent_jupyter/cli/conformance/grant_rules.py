"""Rules of a gateway about control grants and the channel to its agent: what other gateways build on."""

from __future__ import annotations

import json
import secrets
from typing import Any
from urllib.parse import quote

import httpx

from ...protocol.sse import ENDS
from .gateway_kit import GatewayKit
from .rules import Broken, Rulebook, Skipped, expect

book: Rulebook[GatewayKit] = Rulebook()
_PROMPT = "This is a conformance check: please answer with the word OK, and do nothing else."


@book.rule("grant.once", "An approved request serves its token once, with the gateway's identity.", "6", legacy=True)
async def _once(kit: GatewayKit) -> str:
    request, token, answer = await _granted(kit)
    expect(answer.get("node_identity"), f"it serves {sorted(answer)}")
    again = await _status(kit, request)
    expect(again.get("status") == "approved" and not again.get("token"), f"the second poll serves {sorted(again)}")
    who = await _call(kit, "GET", "/channels/suzent/whoami", token)
    expect(who.status_code == 200 and who.json().get("peer_id"), f"whoami answers {who.status_code} {who.text[:80]}")
    await _revoke(kit, token)
    return f"peer_id {who.json()['peer_id']}"


@book.rule("grant.denied", "A denied request says so, and serves no token.", "6", legacy=True)
async def _denied(kit: GatewayKit) -> str:
    request = await _ask(kit)
    await _decide(kit, request, "deny")
    answer = await _status(kit, request)
    expect(answer.get("status") == "denied" and not answer.get("token"), f"{answer.get('status')!r}")
    return "denied"


@book.rule("grant.unknown", "A request that never was is answered 404.", "6", legacy=True)
async def _unknown(kit: GatewayKit) -> str:
    answer = await _call(kit, "GET", f"/nodes/grant-status/{secrets.token_urlsafe(16)}", "")
    expect(answer.status_code == 404 and "error" in answer.json(), f"{answer.status_code} {answer.text[:80]}")
    return "404"


@book.rule("grant.reach", "A control grant reaches the nodes and the agent, and nothing of the operator's.", "6")
async def _reach(kit: GatewayKit) -> str:
    _, token, _ = await _granted(kit)
    nodes = await _call(kit, "GET", "/nodes", token)
    devices = await _call(kit, "GET", "/nodes/devices", token)
    await _revoke(kit, token)
    expect(nodes.status_code == 200, f"GET /nodes answers {nodes.status_code}")
    expect(devices.status_code == 403, f"GET /nodes/devices answers {devices.status_code}")
    return "200 and 403"


@book.rule("grant.revoked", "A revoked grant is nobody's from then on.", "6", legacy=True)
async def _revoked(kit: GatewayKit) -> str:
    _, token, _ = await _granted(kit)
    await _revoke(kit, token)
    who = await _call(kit, "GET", "/channels/suzent/whoami", token)
    nobody = who.status_code in (401, 403) or (who.status_code == 200 and who.json().get("peer_id") is None)
    expect(nobody, f"whoami answers {who.status_code} {who.text[:80]}")
    return str(who.status_code)


@book.rule("channel.nobody", "Without a valid token the agent is not reached: 401.", "6", legacy=True)
async def _nobody(kit: GatewayKit) -> str:
    answer = await _call(kit, "POST", "/channels/suzent/inbound", "nobody-has-this", {"content": _PROMPT})
    expect(answer.status_code == 401, f"{answer.status_code} {answer.text[:80]}")
    return "401"


@book.rule("channel.inbox", "The inbox takes its two fields and no others.", "6", legacy=True)
async def _inbox(kit: GatewayKit) -> str:
    _, token, _ = await _granted(kit)
    more = {"message_id": secrets.token_hex(8), "content": _PROMPT, "from_id": "somebody else"}
    answer = await _call(kit, "POST", "/channels/suzent/inbox", token, more)
    await _revoke(kit, token)
    expect(answer.status_code in (400, 422), f"a third field is answered {answer.status_code}")
    return str(answer.status_code)


@book.rule("channel.stop", "Stopping where nothing runs is answered 409.", "6", legacy=True)
async def _stop(kit: GatewayKit) -> str:
    _, token, _ = await _granted(kit)
    answer = await _call(kit, "POST", "/channels/suzent/stop", token)
    await _revoke(kit, token)
    expect(answer.status_code == 409, f"{answer.status_code} {answer.text[:80]}")
    return "409"


@book.rule("channel.framing", "A turn is `data: {json}` lines, each with a blank line after it, up to its end.", "6")
async def _framing(kit: GatewayKit) -> str:
    _, token, _ = await _granted(kit)
    answer = await _call(kit, "POST", "/channels/suzent/inbound", token, {"content": _PROMPT})
    await _revoke(kit, token)
    expect(answer.status_code == 200, f"it is answered {answer.status_code} {answer.text[:80]}")
    kind = answer.headers.get("content-type", "")
    expect(kind.startswith("text/event-stream"), f"it comes as {kind!r}")
    expect(answer.content.isascii(), "text beyond ASCII is not escaped, and readers split at U+2028")
    types = event_types(answer.text)
    expect(types and types[-1] in ENDS, f"it ends with {types[-1] if types else 'nothing'}")
    return f"{len(types)} events, {types[-1]}"


def event_types(stream: str) -> list[str]:
    """Return the types of a stream's events, in order; :class:`Broken` where the framing is not kept."""
    types = []
    expect(stream.endswith("\n\n"), "no blank line after the last event")
    for block in stream.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if line and not line.startswith((":", "id:"))]
        expect(len(lines) <= 1, f"an event of {len(lines)} lines, or one without a blank line after it")
        for line in lines:
            expect(line.startswith("data: "), f"a line {line[:40]!r}")
            if line != "data: [DONE]":
                types.append(str(json.loads(line[6:])["type"]))
    return types


async def _ask(kit: GatewayKit) -> str:
    kit.operator  # noqa: B018 - without one nobody could decide
    answer = await _call(kit, "POST", "/nodes/grant-request", "", {"controller_name": kit.name()})
    if answer.status_code == 404:
        raise Skipped("this gateway takes no control requests")
    body = answer.json()
    expect(answer.status_code == 200 and body.get("status") == "pending", f"{answer.status_code} {answer.text[:80]}")
    return str(body["request_id"])


async def _decide(kit: GatewayKit, request: str, action: str) -> None:
    answer = await kit.operator.http.post(f"/nodes/grants/{quote(request, safe='')}/{action}", json={})
    if answer.status_code != 200 or answer.json().get("success") is not True:
        raise Broken(f"{action} of a control request answers {answer.status_code} {answer.text[:120]}")


async def _status(kit: GatewayKit, request: str) -> dict[str, Any]:
    answer = await _call(kit, "GET", f"/nodes/grant-status/{quote(request, safe='')}", "")
    expect(answer.status_code == 200, f"its status answers {answer.status_code}")
    return dict(answer.json())


async def _granted(kit: GatewayKit) -> tuple[str, str, dict[str, Any]]:
    """Return a request that was approved, its token, and the answer that served it."""
    request = await _ask(kit)
    await _decide(kit, request, "approve")
    answer = await _status(kit, request)
    expect(isinstance(answer.get("token"), str) and answer["token"], f"no token in {sorted(answer)}")
    return request, str(answer["token"]), answer


async def _revoke(kit: GatewayKit, token: str) -> None:
    who = (await _call(kit, "GET", "/channels/suzent/whoami", token)).json().get("peer_id")
    await kit.operator.http.post(f"/nodes/devices/{quote(str(who), safe='')}/revoke")


async def _call(kit: GatewayKit, method: str, path: str, token: str, body: Any = None) -> httpx.Response:
    """Call a route as another gateway does: with its token, or nobody's."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(base_url=kit.operator.http.base_url, timeout=60, trust_env=False) as http:
        return await http.request(method, path, json=body, headers=headers)
