"""What an operator may change while the gateway runs. Command line and config file beat what the store remembers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SuzentError
from ..protocol.text import clean_text

if TYPE_CHECKING:
    import sqlalchemy as sa

#: Settings that take effect only when the gateway starts.
NEEDS_RESTART = frozenset(["node_lan_bind"])


@dataclass(slots=True)
class Settings:
    """The settings in force.

    Attributes
    ----------
    nodes_enabled : bool
        Accept node connections and calls.
    node_discovery_enabled : bool
        Advertise and browse.
    node_lan_bind : bool
        Bind the listener for other devices; takes effect after a restart.
    display_name : str
        How this gateway calls itself.
    denied_commands : list of str
        Glob patterns never dispatched, whoever asks.
    fixed : frozenset of str
        Names set by command line or config file; they can't be changed here.
    """

    nodes_enabled: bool = True
    node_discovery_enabled: bool = True
    node_lan_bind: bool = False
    display_name: str = "Jupyter"
    denied_commands: list[str] = field(default_factory=list)
    fixed: frozenset[str] = frozenset()

    def values(self) -> dict[str, Any]:
        """Return name → value of the changeable settings."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "fixed"}

    def check_nodes_enabled(self) -> None:
        """Refuse what has to do with nodes while they are switched off: ``nodes_disabled``."""
        if not self.nodes_enabled:
            raise SuzentError("nodes_disabled", "This gateway's nodes are switched off.")

    def denies(self, command: str) -> bool:
        """Tell whether a command is never to be carried out."""
        return any(fnmatchcase(command, pattern) for pattern in self.denied_commands)

    def remember(self, connection: sa.Connection) -> None:
        """Take over what the store remembers, except fixed settings (on the store's thread)."""
        import sqlalchemy as sa

        from . import schema

        known = self.values()
        for name, value in connection.execute(sa.select(schema.settings.c.name, schema.settings.c.value)):
            if name in known and name not in self.fixed and type(value) is type(known[name]):
                setattr(self, name, value)

    def check(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return the changes that differ from what is in force.

        Raises
        ------
        SuzentError
            ``invalid_request`` for an unknown or fixed setting or a value of the wrong type.
        """
        known = self.values()
        kept = {}
        for name, wanted in changes.items():
            if name not in known:
                raise SuzentError("invalid_request", f"There is no setting '{name}'; there are: {', '.join(known)}.")
            value = clean_text(wanted, 64) if name == "display_name" else wanted
            if value == "":
                raise SuzentError("invalid_request", "display_name must be text that can be read.")
            if value == known[name]:
                continue
            if name in self.fixed:
                raise SuzentError(
                    "invalid_request",
                    f"'{name}' is set by the server's command line or config file; change it there and restart.",
                )
            kept[name] = value
        return kept

    def apply(self, changes: dict[str, Any]) -> None:
        """Put checked changes in force."""
        for name, value in changes.items():
            setattr(self, name, value)


def save_settings(connection: sa.Connection, changes: dict[str, Any]) -> None:
    """Remember changes (on the store's thread)."""
    import sqlalchemy as sa

    from . import schema

    for name, value in changes.items():
        connection.execute(sa.delete(schema.settings).where(schema.settings.c.name == name))
        connection.execute(sa.insert(schema.settings).values(name=name, value=value))
