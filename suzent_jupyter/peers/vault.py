"""Where the tokens and pins of joins are kept: by gateway, so that another name there needs no new approval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..node import TokenVault


class JoinVault(TokenVault):
    """The vault of one join.

    Parameters
    ----------
    directory : Path
        Where the files stand.
    account : str
        Whose join it is: each account has an identity and tokens of its own.
    gateway_url : str
        The gateway that gives the token.
    """

    def __init__(self, directory: Path, account: str, gateway_url: str) -> None:
        super().__init__(directory)
        self._named = {
            "node": f"join:{account}:{gateway_url}",
            "identity": f"identity:gateway:{account}",
            "pin": f"pin:{account}:{gateway_url}",
        }

    def get(self, key: str) -> str | None:
        """Return the text under ``key``, or None."""
        return super().get(self._own(key))

    def set(self, key: str, value: str) -> None:
        """Keep ``value`` under ``key``."""
        super().set(self._own(key), value)

    def setdefault(self, key: str, make: Callable[[], str]) -> str:
        """Return the text under ``key``, made and kept first where there is none."""
        return super().setdefault(self._own(key), make)

    def delete(self, key: str) -> None:
        """Forget ``key``."""
        super().delete(self._own(key))

    def _own(self, key: str) -> str:
        return self._named.get(key.partition(":")[0], key)
