"""Yes or no to whatever waits under a code: a device, its new commands, or a gateway that asks for control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..kernel.gateway import Gateway


def decide(gateway: Gateway, code: str, action: str) -> dict[str, Any]:
    """Approve or deny the device that shows this code, else the gateway.

    Raises
    ------
    KernelError
        With code ``code_unknown`` if nothing waits under it.
    """
    from ..kernel.errors import KernelError

    try:
        return gateway.approve(code) if action == "approve" else gateway.deny(code)
    except KernelError as error:
        if error.code != "code_unknown":
            raise
        try:
            return decide_grant(gateway, code, action, {})
        except KernelError as other:
            raise (error if other.code == "request_unknown" else other) from None


def decide_grant(gateway: Gateway, code: str, action: str, terms: dict[str, Any]) -> dict[str, Any]:
    """Approve or deny the gateway that asks for control with this code, or whose request has this id.

    Raises
    ------
    KernelError
        With code ``request_unknown`` if none waits under it.
    """
    from ..kernel.errors import KernelError
    from ..kernel.plain import one_line
    from ..kernel.rest import segment

    wanted = code.strip()
    for item in gateway.get("/nodes/grants")["grants"]:
        if item["request_id"] == wanted or (item.get("code") and item["code"] == wanted.upper()):
            answer: dict[str, Any] = gateway.post(f"/nodes/grants/{segment(item['request_id'])}/{action}", terms)
            return answer
    raise KernelError(f"No request waits under '{one_line(wanted, 40)}'.", code="request_unknown")
