"""The table of devices. Everything here runs on the store's thread."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SuzentError
from .devices import Device

if TYPE_CHECKING:
    import sqlalchemy as sa


def load_devices(connection: sa.Connection) -> list[Device]:
    """Return all of them."""
    import sqlalchemy as sa

    from . import schema

    return [Device(**row) for row in connection.execute(sa.select(schema.devices)).mappings()]


def same_installation(connection: sa.Connection, device: Device) -> list[Device]:
    """Return the node that has this key, or claimed this identity within the account, if there is one.

    Raises
    ------
    SuzentError
        ``code_used`` when another account has approved the key.
    """
    import sqlalchemy as sa

    from . import schema

    table = schema.devices
    if device.public_key:
        # A key is one device, whatever else is claimed with it.
        same_key = sa.select(table).where(table.c.digest == device.digest)
        found = [Device(**row) for row in connection.execute(same_key).mappings()]
        if any(other.account != device.account for other in found):
            raise SuzentError("code_used", "Another account has approved this device's key already.")
        return found
    if not device.node_identity or device.scope != "node":
        return []
    query = sa.select(table).where(
        table.c.scope == "node", table.c.node_identity == device.node_identity, table.c.account == device.account
    )
    return [Device(**row) for row in connection.execute(query.limit(1)).mappings()]


def update_device(connection: sa.Connection, device: Device, changes: dict[str, Any]) -> None:
    """Change columns of a device."""
    import sqlalchemy as sa

    from . import schema

    table = schema.devices
    connection.execute(sa.update(table).where(table.c.device_id == device.device_id).values(**changes))


def replace_device(connection: sa.Connection, device: Device, others: list[Device], only_if_same: bool = False) -> None:
    """Put others in the place of a device; ``only_if_same``: unless its id has got yet another token meanwhile."""
    import sqlalchemy as sa

    from . import schema

    table = schema.devices
    out = sa.delete(table).where(table.c.device_id == device.device_id)
    if only_if_same:
        out = out.where(table.c.digest == device.digest)
    if connection.execute(out).rowcount or not only_if_same:
        for each in others:
            connection.execute(sa.insert(table).values(**asdict(each)))
