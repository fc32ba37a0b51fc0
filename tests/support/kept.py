"""Nodes that know references to kept files, and what a test looks at where files lie."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any

from suzent_jupyter.gateway.devices import Device

from .device import BareDevice
from .gateways import Addresses, ThreadedGateway


def knowing(gateway: Addresses, name: str = "Scope", **hello: Any) -> BareDevice:
    """A device that announced ``artifacts``."""
    return BareDevice(gateway.node_url, name, **{"features": ["artifacts", "cancel"], **hello})


def part(data: bytes, **more: Any) -> dict[str, Any]:
    return {"media_type": "image/png", "base64": base64.b64encode(data).decode(), **more}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kept_files(gateway: Any) -> list[Path]:
    """The files that lie in the directory of a gateway in this process."""
    folder = gateway.config.data_dir / "artifacts"
    return sorted(folder.iterdir()) if folder.exists() else []


async def fetched(gateway: Addresses, url: str, **options: Any) -> Any:
    """Fetch without any token."""
    async with gateway.http(headers=options.pop("headers", {})) as http:
        return await http.get(url, **options)


async def token_of(gateway: ThreadedGateway, account: str, org: str = "") -> str:
    """Return a token of full authority for an account."""
    device = Device("", b"", f"{account}'s token", scope="full", account=account, org=org)
    _, token = await asyncio.to_thread(lambda: gateway.run(gateway.service.gateway.credentials.adopt(device)))
    return token
