"""Whose account, and which organisation, a user of the Jupyter server is.

Both are found at each request and at the handshake of each socket. An open socket keeps what it was opened with, and a
device or token the organisation of whoever approved or made it, until the socket is opened anew, the device shared
again, the token made anew.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol.errors import SuzentError
from ..protocol.text import clean_text

log = logging.getLogger("suzent_jupyter")

_NAME_CHARS = 128
# Jupyter's own providers give whoever knows the token or password a name made up for each browser.
_JUPYTERS = "jupyter_server.auth."
_MADE_UP = re.compile(r"[0-9a-f]{32}")


class Accounts:
    """Accounts and organisations of users.

    Parameters
    ----------
    account, org : str
        The owner's account, and the organisation of all; ``""`` where ``orgs`` or groups say it.
    multi_user : bool
        Whether each user has an account of their own.
    orgs : mapping
        User, or a group as ``@group``, → organisation.
    """

    def __init__(self, account: str, org: str, multi_user: bool, orgs: Mapping[str, str]) -> None:
        self._account = account
        self._org = org
        self._multi_user = multi_user
        self._orgs = orgs
        self._warned = False

    def of(self, user: Any, provider: Any, handler: Any = None) -> tuple[str, str]:
        """Return the account and organisation of a user whom a provider let in.

        Parameters
        ----------
        user : jupyter_server.auth.User
            Who asks. JupyterHub's has groups too, as ``groups`` or in its ``hub_user``.
        provider : jupyter_server.auth.IdentityProvider
            Who says so.
        handler : JupyterHandler, optional
            The request.

        Raises
        ------
        SuzentError
            ``forbidden`` for a name that can't be an account.
        """
        if not self._multi_user:
            return self._account, self._org
        nobody = _knows_nobody(provider)
        if nobody:
            self._warn(type(provider).__name__)
        if nobody or (_is_anonymous(user) and _made_up(user, provider, handler)):
            return self._account, self.org_of(self._account, ())
        name = getattr(user, "username", None)
        if not isinstance(name, str) or not name or clean_text(name, _NAME_CHARS) != name:
            # Made to fit, it could become somebody else's.
            raise SuzentError("forbidden", "The server's identity provider names no user that can be an account.")
        return name, self.org_of(name, _groups(user))

    def org_of(self, account: str, groups: Iterable[str]) -> str:
        """Return an account's organisation, ``""`` for none and where its groups disagree."""
        if self._org:
            return self._org
        if account in self._orgs and not account.startswith("@"):  # no user is a group by being called like one
            return self._orgs[account]
        found = list(groups)
        named = {self._orgs[f"@{group}"] for group in found if f"@{group}" in self._orgs} or set(found)
        org = named.pop() if len(named) == 1 else ""
        # Made to fit, it could become another one.
        return org if clean_text(org, _NAME_CHARS) == org else ""

    def _warn(self, provider: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "SuzentApp.multi_user is on, but %s can't tell users apart: whoever is let in is '%s'. "
                "Set ServerApp.identity_provider_class to one that can.",
                provider,
                self._account,
            )


def _knows_nobody(provider: Any) -> bool:
    """Tell whether a provider is one of Jupyter's own; with a login handler of somebody else's it may know users."""
    handler = getattr(provider, "login_handler_class", None)
    parts = [type(provider)] if handler is None else [type(provider), handler]
    return all(part.__module__.startswith(_JUPYTERS) for part in parts)


def _is_anonymous(user: Any) -> bool:
    """Tell whether Jupyter made up a name for somebody who knows the server's token, as every provider's base does."""
    name, username = getattr(user, "name", None), getattr(user, "username", None)
    made_up = isinstance(username, str) and _MADE_UP.fullmatch(username) is not None
    return made_up and isinstance(name, str) and name.startswith("Anonymous ")


def _made_up(user: Any, provider: Any, handler: Any) -> bool:
    """Tell whether it was Jupyter that did: by its token, its cookie, or because it lets everybody in.

    Elsewhere users may choose how they are called, and be known by an id that looks the same.
    """
    from jupyter_server.auth.identity import IdentityProvider

    if handler is None or not isinstance(provider, IdentityProvider):
        return False
    token = provider.token
    if not provider.auth_enabled or (token and IdentityProvider.get_token(provider, handler) == token):
        return True
    known = IdentityProvider.get_user_cookie(provider, handler)
    return bool(getattr(known, "username", None) == user.username)


def _groups(user: Any) -> list[str]:
    groups = getattr(user, "groups", None)
    if groups is None:
        model = getattr(user, "hub_user", None)
        groups = model.get("groups") if isinstance(model, Mapping) else None
    if not isinstance(groups, Iterable) or isinstance(groups, str | bytes):
        return []
    return sorted({group for group in groups if isinstance(group, str) and group})
