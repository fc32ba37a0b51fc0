"""The part of a gateway's Python object that has to do with who is let in: invitations, approvals, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ERRORS
from .errors import KernelError, NodeNotFound, NoGateway, Unauthorized, Unreachable, UsageError
from .finding import one_of
from .granting import approval, granted
from .locate import Secret
from .plain import one_line
from .rest import Rest, segment

if TYPE_CHECKING:
    from .invitation import Invitation

Record = dict[str, Any]


class HostToken:
    """A new token of full authority. Shown by its hint only, since what a cell shows is saved in the notebook."""

    __slots__ = ("_token", "device_id", "name")

    def __init__(self, token: str, device_id: str, name: str) -> None:
        self._token = Secret(token)
        self.device_id = device_id
        self.name = name

    @property
    def token(self) -> str:
        """The token itself. The gateway keeps only its hash and can't show it again."""
        return self._token.reveal()

    def __repr__(self) -> str:
        value = self._token.reveal()
        return f"<HostToken {value[:10]}…{value[-4:]} of {self.device_id}: its `.token` holds it, shown this once>"


class Pairing:
    """Devices, tokens and what waits for approval, of a :class:`~.gateway.Gateway`."""

    _rest: Rest

    def approve(
        self,
        code: str,
        *,
        expires_in: float | None = None,
        commands: Sequence[str] = (),
        covers: str = "both",
        unattended_tools: bool = False,
    ) -> Record:
        """Approve what waits under exactly this code: a device, its new commands, or a request for control.

        Parameters
        ----------
        expires_in : float, optional
            Of a request for control: seconds after which the grant ends; None for never.
        commands : sequence of str
            The devices' commands it may call, as patterns such as ``camera.*``; all if empty.
        covers : str
            ``both``, ``agent`` or ``devices``.
        unattended_tools : bool
            Whether its turns may use tools that would otherwise ask.

        Returns
        -------
        dict
            ``{success, message, …}``; the message says exactly what was granted.
        """
        terms = approval(expires_in, commands, covers, unattended_tools)
        grant, trouble = self._waiting_grant(code)
        if grant is not None:
            answer = self._rest.post(f"/nodes/grants/{segment(str(grant['request_id']))}/approve", terms)
            return {**answer, "message": f"Approved: {granted(grant, terms)}"}
        if terms != approval():
            if trouble is not None:
                raise trouble
            unknown: KernelError = UsageError(
                f"No request for control waits under code '{one_line(code, 40)}', and a device has no such terms.",
                hint="`%suzent grants` shows the requests that wait.",
            )
            if any(item.get("pairing_code") == code.strip().upper() for item in self._rest.records("pending")):
                raise unknown
            return self._decide_unlisted(code, "approve", unknown, terms)
        try:
            return self._decide(code, "approve", trouble)
        except KernelError as error:
            return self._decide_unlisted(code, "approve", error, terms)

    def deny(self, code: str) -> Record:
        """Turn away what waits under this code."""
        grant, trouble = self._waiting_grant(code)
        if grant is None:
            try:
                return self._decide(code, "deny", trouble)
            except KernelError as error:
                return self._decide_unlisted(code, "deny", error)
        answer: Record = self._rest.post(f"/nodes/grants/{segment(str(grant['request_id']))}/deny")
        who = one_line(grant.get("controller_name"), 64) or "the request"
        return {**answer, "message": f"Denied: {who} gets no control of this gateway."}

    def _waiting_grant(self, code: str) -> tuple[Record | None, KernelError | None]:
        """Return the request for control that waits under this code, or what kept us from looking."""
        wanted = code.strip()
        try:
            waiting = self._rest.records("grants")
        except (NoGateway, Unreachable, Unauthorized):
            raise
        except KernelError as error:  # a gateway that knows no grants still pairs devices
            return None, error
        for item in waiting:
            if wanted and (item.get("code") == wanted.upper() or item.get("request_id") == wanted):
                return item, None
        return None, None

    def revoke(self, device: str) -> Record:
        """Take a device's or token's approval away; its connection closes at once. ``device`` is a name or id."""
        answer: Record = self._rest.post(f"/nodes/devices/{segment(self.device(device)['device_id'])}/revoke")
        return answer

    def pause(self, device: str) -> Record:
        """Refuse calls to a device until it is resumed."""
        return self._status(device, "paused")

    def resume(self, device: str) -> Record:
        """Let a paused device work again."""
        return self._status(device, "active")

    def host_token(self, name: str | None = None) -> HostToken:
        """Make a token of full authority for a program of one's own."""
        answer = self._rest.post("/nodes/host-token", {"name": name} if name else {})
        return HostToken(answer["token"], answer["device_id"], name or "")

    def invite(self, name: str | None = None) -> Invitation:
        """Make a pairing link, good once, that invites a device; ``name`` says whom or what it is for."""
        from .invitation import Invitation

        return Invitation(self._rest.post("/nodes/invite", {"name": name} if name else {}))

    def device(self, name: str) -> Record:
        """Return the record of an approved device or token by id, name or unique id prefix."""
        found = one_of(self._rest.records("devices"), name, key="device_id", what="device")
        if found is not None:
            return found
        raise NodeNotFound(
            f"There is no device or token '{one_line(name, 64)}'.",
            code="device_unknown",
            hint="`%suzent devices` lists them.",
        )

    def _decide(self, code: str, action: str, trouble: KernelError | None) -> Record:
        exact = code.strip().upper()
        if not exact or not exact.isalnum():
            raise UsageError(f"'{one_line(code, 40)}' is not a pairing code.", hint=ERRORS["code_unknown"].hint)
        try:
            answer: Record = self._rest.post(f"/nodes/pending/{segment(exact)}/{action}")
        except KernelError as error:
            if trouble is not None and trouble.status >= 500 and error.code == "code_unknown":
                raise trouble from None
            raise
        return answer

    def _decide_unlisted(self, code: str, action: str, unknown: KernelError, terms: Record | None = None) -> Record:
        """Decide a request for control that is in no list: it is over, which is said, or belongs to nobody yet."""
        exact = code.strip().upper()
        if unknown.code not in ("code_unknown", "usage") or not exact.isalnum():
            raise unknown
        try:
            answer: Record = self._rest.post(f"/nodes/grants/{segment(exact)}/{action}", terms)
        except KernelError as error:
            raise (error if error.code in ("request_expired", "request_decided") else unknown) from None
        return answer

    def _status(self, device: str, status: str) -> Record:
        answer: Record = self._rest.post(
            f"/nodes/devices/{segment(self.device(device)['device_id'])}/status", {"status": status}
        )
        return answer
