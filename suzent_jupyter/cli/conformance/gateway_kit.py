"""What the checks against a gateway share: playing devices, the operator, and tidying up afterwards."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

from websockets.exceptions import WebSocketException

from .operator import Operator
from .played_device import PlayedDevice
from .rules import Broken, Skipped, Unreachable
from .talk import Frame


class GatewayKit:
    """One run of the rules against one gateway."""

    def __init__(self, url: str, operator: Operator) -> None:
        self.url = url
        self._operator = operator
        self._no_operator = "nobody was asked yet"
        self.devices: list[PlayedDevice] = []
        self._names: set[str] = set()

    async def prepare(self) -> None:
        """See whether anybody is there.

        Raises
        ------
        Unreachable
            When no WebSocket opens.
        """
        try:
            await (await self.device()).leave()
        except (OSError, WebSocketException, TimeoutError) as error:
            raise Unreachable(f"{self.url} does not open a WebSocket: {error}") from None
        self._no_operator = await self._operator.ready()

    @property
    def operator(self) -> Operator:
        """The operator; rules that need one are skipped where there is none."""
        if self._no_operator:
            raise Skipped(f"needs an operator: {self._no_operator}")
        return self._operator

    def name(self) -> str:
        """Return a name no other device has."""
        name = f"conformance {secrets.token_hex(4)}"
        self._names.add(name)
        return name

    async def device(self, **options: Any) -> PlayedDevice:
        """Open a socket."""
        device = await PlayedDevice.open(self.url, **options)
        self.devices.append(device)
        return device

    async def waiting(self, name: str = "", **connect: Any) -> tuple[PlayedDevice, str]:
        """Return a device that waits for approval, and its code."""
        device = await self.device()
        answer = await device.join(name or self.name(), **connect)
        if answer.get("type") != "pending" or not isinstance(answer.get("pairing_code"), str):
            raise Broken(f"a new device was answered {answer.get('type')!r}")
        return device, answer["pairing_code"]

    async def approved(self, name: str = "", **connect: Any) -> tuple[PlayedDevice, Frame]:
        """Return a device that has just been approved, and its ``connected`` frame."""
        operator = self.operator
        device, code = await self.waiting(name, **connect)
        await operator.settle(code)
        connected = await device.next("connected")
        return device, connected

    async def again(self, token: str, name: str = "", **connect: Any) -> tuple[PlayedDevice, Frame]:
        """Connect with a token; return the device and the first answer."""
        device = await self.device()
        return device, await device.join(name or self.name(), token=token, **connect)

    async def tidy(self) -> None:
        """Hang up everywhere and take back every approval."""
        for played in self.devices:
            if played.close_code is None:
                await played.leave()
        if not self._no_operator:
            for device in await self._operator.list("/nodes/devices", "devices"):
                if device.get("display_name") in self._names:
                    await self._operator.http.post(f"/nodes/devices/{quote(str(device['device_id']), safe='')}/revoke")
        await self._operator.http.aclose()
