"""The tokens this gateway issues: given, paused, replaced, revoked, ended by time; and what ends with each."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.errors import SuzentError
from ..protocol.rest import ApprovedDeviceInfo, PairingActionResponse
from ..protocol.text import clean_text
from .audit import Row
from .clock import now_text
from .device_rows import load_devices, replace_device, same_installation, update_device
from .devices import Departure, Device
from .granting.expiry import Expiry
from .granting.usage import Usage
from .principals import Principal
from .tokens import mint_token, token_digest, token_hint

if TYPE_CHECKING:
    import sqlalchemy as sa

    from .gateway import Gateway

#: What another process may have changed of a device that is known here.
_FOLLOWED = (
    "status",
    "approved",
    "sharing",
    "org",
    "node_identity",
    "callback_url",
    "covers",
    "commands",
    "unattended_tools",
    "expires_at",
)


class Credentials:
    """Changes what tokens there are, and who may use them. Each change is on disk before it is in force.

    Parameters
    ----------
    gateway : Gateway
        Whose tokens they are.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._devices = gateway.devices
        self._audit = gateway.audit
        self._usage = Usage(gateway.store, self._used)
        self._expiry = Expiry(gateway.devices, self._expired)
        self._loop = asyncio.get_running_loop()

    def start(self, devices: list[Device] | None) -> None:
        """Take over what the store holds; None where it can't be read."""
        if devices is not None:
            self._devices.replace_all(devices)
        self._expiry.start()

    async def stop(self) -> None:
        """Watch no longer, and write what was counted."""
        self._expiry.stop()
        await self._usage.flush()

    # -- issuing --

    async def adopt(
        self, device: Device, row: Row | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> tuple[Device, str]:
        """Give a new device its id and token and keep it; return both.

        A device whose identity is known already takes its own place, so that pairing again leaves no ghost behind.
        ``wanted`` is asked once it is on disk; if the device has hung up by then, all is put back as it was.

        Raises
        ------
        SuzentError
            ``code_gone`` in that case.
        """
        token = _mint(device)
        if row is None:
            row = Row(device.account, "kernel", "device.adopt", node=device.display_name)
        former: list[Device] = []

        def work(connection: sa.Connection) -> None:
            # Whom it replaces is decided here, one after the other, also when another process shares the file.
            former[:] = same_installation(connection, device)
            device.device_id = former[0].device_id if former else secrets.token_hex(8)
            row.node_id = device.device_id
            replace_device(connection, device, [device])

        rows = await self._audit.change([row], work)
        if not wanted():
            gone = msgspec.structs.replace(row, outcome="code_gone")
            rows += await self._audit.change(
                [gone], lambda connection: replace_device(connection, device, former, only_if_same=True)
            )
            self._audit.publish(rows)
            raise SuzentError("code_gone", f"{device.display_name} hung up before it could be approved.")
        known = self._devices.by_id(device.device_id)
        self._devices.put(device)
        if known is not None:
            self._gateway.sessions.end(known, SuzentError("replaced", "This device was paired again."))
        self.tell("added" if known is None else "changed", device)
        self._audit.publish(rows)
        return device, token

    async def issue_grant(self, device: Device, row: Row, *, replaces: bool = True) -> tuple[Device, str]:
        """Give a control grant its id and token and keep it; return both.

        Earlier grants of the same holder end with that, unless ``replaces`` is false. The new one has an id of its own,
        since an identity is only claimed: nothing that belonged to the earlier one is handed over.

        Raises
        ------
        SuzentError
            ``store_unreadable`` or ``store_failed``; then nothing has changed.
        """
        token = _mint(device)
        device.device_id = row.node_id = secrets.token_hex(8)
        rows, ended = [row], set[str]()

        def work(connection: sa.Connection) -> None:
            # Decided here, one after the other, also when another process shares the file.
            for former in load_devices(connection) if replaces else ():
                if former.account == device.account and former.is_held_by(device.node_identity, device.callback_url):
                    ended.add(former.device_id)
                    replaced = Row(row.account, row.actor, "grant.replace", former.device_id, former.display_name)
                    replaced.detail = {"replaced_by": device.device_id}
                    rows.append(replaced)
                    replace_device(connection, former, [])
            replace_device(connection, device, [device])

        written = await self._audit.change(rows, work)
        self._devices.put(device)
        self.tell("added", device)
        for device_id in ended:
            former = self._devices.by_id(device_id)
            if former is not None:
                self._drop(former)
        self._expiry.look()
        self._audit.publish(written)
        return device, token

    async def host_token(self, principal: Principal, name: str | None) -> tuple[Device, str]:
        """Make a token of full authority for the caller's own programs; it is shown this once."""
        device = Device(
            device_id="",
            digest=b"",
            display_name=clean_text(name or "", int(self._gateway.limits.name_chars)) or "host token",
            platform="token",
            scope="full",
            account=principal.account,
            org=principal.org,
        )
        row = Row(principal.account, principal.actor, "token.create", node=device.display_name)
        return await self.adopt(device, row)

    # -- changing --

    def listing(self, principal: Principal) -> list[ApprovedDeviceInfo]:
        """Return every token of the caller's account."""
        return [self._info(device) for device in self._devices.visible(principal)]

    async def revoke(self, principal: Principal, device_id: str) -> PairingActionResponse:
        """Revoke a token: its socket closes and its calls fail at once, answered after it is on disk."""
        device = self._devices.find(principal, device_id)
        row = _row(principal, "device.revoke", device)
        rows = await self._audit.change([row], lambda connection: replace_device(connection, device, []))
        self._drop(device)
        self._audit.publish(rows)
        return PairingActionResponse(
            success=True, message=f"Revoked {device.display_name}.", device_id=device.device_id
        )

    async def set_status(self, principal: Principal, device_id: str, status: str) -> str:
        """Pause or resume a token; returns the status in force."""
        device = self._devices.find(principal, device_id)
        if device.status != status:
            action = "device.pause" if status == "paused" else "device.resume"
            await self.change(device, {"status": status}, _row(principal, action, device))
            self._gateway.sessions.tell_of(device)
            self._gateway.close_clients(device)
            if status == "paused":
                self._depart(device, "paused")
            else:
                self._gateway.inbox.wake()
        return device.status

    async def change(self, device: Device, changes: dict[str, Any], row: Row) -> None:
        """Change what is kept of a device, and tell subscribers."""
        rows = await self._audit.change([row], lambda connection: update_device(connection, device, changes))
        for name, value in changes.items():
            setattr(device, name, value)
        self.tell("changed", device)
        self._audit.publish(rows)

    def note_use(self, principal: Principal) -> None:
        """Count a use of the control grant a caller holds; nothing for all others."""
        device = self._devices.by_id(principal.credential_id) if principal.grant is not None else None
        if device is not None:
            self._usage.note(device)

    def note_last_seen(self, device: Device) -> None:
        """Keep when a device was there last."""
        if self._devices.by_id(device.device_id) is device:
            seen = {"last_seen": device.last_seen}
            self._gateway.store.run_unawaited(lambda connection: update_device(connection, device, seen))

    def tell(self, kind: str, device: Device) -> None:
        """Tell subscribers of a token that came, changed or went."""
        self._gateway.changes.publish(
            "devices",
            kind,
            lambda: self._info(device).model_dump(),
            lambda principal: principal.account == device.account,
        )

    # -- ending --

    def _used(self, device: Device) -> None:
        if self._devices.by_id(device.device_id) is device:
            self.tell("changed", device)

    def _expired(self, device: Device) -> None:
        """End what a token has under way whose time is over."""
        self._depart(device, "revoked")
        self._gateway.close_clients(device)
        self.tell("changed", device)

    def _drop(self, device: Device) -> None:
        self._devices.remove(device.device_id)
        self._depart(device, "revoked")
        self._gateway.sessions.end(device, SuzentError("revoked", f"{device.display_name} was revoked."))
        self._gateway.close_clients(device)
        self.tell("removed", device)

    def _depart(self, device: Device, how: Departure) -> None:
        for hear in self._gateway.departures:
            hear(device, how)

    def _info(self, device: Device) -> ApprovedDeviceInfo:
        return device.info(connected=self._gateway.registry.by_id(device.device_id) is not None)

    # -- another process wrote to the store --

    def read_again(self, connection: sa.Connection) -> None:
        """Follow what it did to the devices; called on the store's thread."""
        self._loop.call_soon_threadsafe(self._take_over, load_devices(connection))

    def _take_over(self, devices: list[Device]) -> None:
        """Follow what another process did to the devices: a token revoked there is dead here at once."""
        current = {device.device_id: device for device in devices}
        for old in self._devices:
            new = current.pop(old.device_id, None)
            if new is None or new.digest != old.digest:
                self._drop(old)
                if new is not None:
                    self._devices.put(new)
                    self.tell("added", new)
            else:
                self._follow(old, new)
        for new in current.values():
            self._devices.put(new)
            self.tell("added", new)
        self._expiry.look()

    def _follow(self, old: Device, new: Device) -> None:
        """Make a device what it is elsewhere."""
        if new.trigger_count > old.trigger_count:
            old.trigger_count, old.last_triggered_at = new.trigger_count, new.last_triggered_at
            self.tell("changed", old)
        if all(getattr(new, name) == getattr(old, name) for name in _FOLLOWED):
            return
        was = replace(old)
        newly_paused = new.status == "paused" != old.status
        for name in _FOLLOWED:
            setattr(old, name, getattr(new, name))
        self.tell("changed", old)
        if newly_paused:
            self._depart(old, "paused")
        self._gateway.close_clients(old)
        self._gateway.sharing.changed(old, was)


def _mint(device: Device) -> str:
    """Give a device its token; one with a key needs none and gets ``""``."""
    device.approved_at = device.last_seen = now_text()
    if device.public_key:
        device.token_hint = f"key {device.public_key[:10]}…"
        return ""
    token = mint_token()
    device.digest, device.token_hint = token_digest(token), token_hint(token)
    return token


def _row(principal: Principal, action: str, device: Device) -> Row:
    return Row(principal.account, principal.actor, action, node_id=device.device_id, node=device.display_name)
