"""Whose account a user of a Jupyter server is: providers that know users, providers that do not, and odd names."""

from __future__ import annotations

import asyncio
import getpass
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyter_server.auth.identity import LegacyIdentityProvider, PasswordIdentityProvider
from support.gateways import JupyterServer

from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.server.accounts import Accounts
from suzent_jupyter.server.app import SuzentApp

StartJupyter = Callable[..., JupyterServer]

_ORGS = {"ada": "red", "@hackers": "red", "@makers": "blue", "@nobodies": ""}


class Knows:
    """A provider of somebody else's."""


def of(user: Any, provider: Any = None, org: str = "", orgs: dict[str, str] | None = None) -> tuple[str, str]:
    accounts = Accounts("owner", org, True, _ORGS if orgs is None else orgs)
    return accounts.of(user, provider or Knows())


def user(name: Any, **more: Any) -> Any:
    return SimpleNamespace(username=name, name=name, **more)


@pytest.mark.parametrize(
    ("groups", "org"),
    [
        ([], ""),
        (["green"], "green"),
        (["green", "grey"], ""),
        (["hackers"], "red"),
        (["hackers", "green", "grey"], "red"),
        (["hackers", "makers"], ""),
        (["hackers", "hackers"], "red"),
        (["nobodies"], ""),
        (["nobodies", "hackers"], ""),
        (["", None, 7, "green"], "green"),
        (("green",), "green"),
        ({"green"}, "green"),
        ("green", ""),  # letters are no groups
        (b"green", ""),
        (None, ""),
        (7, ""),
        (["gre\u200ben"], ""),
        ([" green"], ""),
        (["g" * 200], ""),
        (["gre\u200ben", "green"], ""),
    ],
)
def test_the_organisation_follows_from_groups(groups: Any, org: str) -> None:
    assert of(user("bob", groups=groups)) == ("bob", org)
    if groups is not None:
        assert of(user("bob", hub_user={"name": "bob", "groups": groups})) == ("bob", org)


def test_what_is_set_for_all_or_for_the_user_comes_before_groups() -> None:
    assert of(user("ada", groups=["makers"])) == ("ada", "red")
    assert of(user("ada", groups=["makers"]), org="all") == ("ada", "all")
    # Whom a group is set for is not who is called like it.
    assert of(user("@hackers", groups=[])) == ("@hackers", "")
    assert of(user("hackers", groups=[])) == ("hackers", "")
    assert of(user("bob", hub_user=None)) == ("bob", "")
    assert of(user("bob", hub_user=["groups"])) == ("bob", "")


@pytest.mark.parametrize(
    "name",
    ["", " ada", "ada ", "a\x00da", "a\nda", "\x1b[31mada", "ada\u202e", "ad\u200ba", "a" * 129, "  ", "a  b", None, 7,
     b"ada", ["ada"], "zoe\u0308"],
)  # fmt: skip
def test_a_name_that_would_have_to_be_bent_is_nobodys(name: Any) -> None:
    with pytest.raises(SuzentError) as caught:
        of(user(name))
    assert caught.value.code == "forbidden"


@pytest.mark.parametrize(
    "name", ["ada", "Ada", "ada@example.org", "d'arc", "zo\u00eb", "\u5f20", "a" * 128, "..", "../x", "a/b"]
)
def test_every_other_name_is_an_account(name: str) -> None:
    assert of(user(name), orgs={})[0] == name


def test_without_several_users_everybody_is_the_owner() -> None:
    accounts = Accounts("owner", "all", False, _ORGS)
    assert accounts.of(user("bob", groups=["makers"]), Knows()) == ("owner", "all")


def test_a_provider_that_knows_nobody_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    accounts = Accounts("ada", "", True, _ORGS)
    with caplog.at_level(logging.WARNING, "suzent_jupyter"):
        for _ in range(3):
            assert accounts.of(user("x"), PasswordIdentityProvider()) == ("ada", "red")
            assert accounts.of(user("x"), LegacyIdentityProvider()) == ("ada", "red")
    assert len(caplog.records) == 1
    assert "PasswordIdentityProvider can't tell users apart: whoever is let in is 'ada'" in caplog.text


def test_a_login_handler_of_old_that_knows_users_is_believed() -> None:
    provider = LegacyIdentityProvider()
    provider.login_handler_class = type("Handler", (provider.login_handler_class,), {"__module__": "theirs"})
    assert of(user("bob"), provider) == ("bob", "")


def test_the_owner_is_the_hubs_user_then_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "zoe@example.org")
    assert SuzentApp().service_config().account == "zoe@example.org"
    assert SuzentApp(account="ada").service_config().account == "ada"
    monkeypatch.delenv("JUPYTERHUB_USER")
    assert SuzentApp().service_config().account == getpass.getuser()


_PROVIDERS = '''
from jupyter_server.auth.identity import IdentityProvider, PasswordIdentityProvider, User


class Both(PasswordIdentityProvider):
    """Knows users by a header, and lets in as Jupyter does whoever holds the token."""

    async def get_user(self, handler):
        name = handler.request.headers.get("X-Forwarded-User")
        if name:
            handler._token_authenticated = True
            shown = handler.request.headers.get("X-Forwarded-Name", name)
            return User(username=name, name=shown, display_name=shown)
        return await super()._get_user(handler)
'''


def start(start_jupyter: StartJupyter, tmp_path: Path, *options: str) -> JupyterServer:
    code = tmp_path / "code"
    code.mkdir()
    (code / "own_users.py").write_text(_PROVIDERS)
    return start_jupyter(
        "--SuzentApp.multi_user=True",
        "--SuzentApp.account=ada",
        *options,
        PYTHONPATH=f"{code}:{Path(__file__).parents[2]}",
    )


def test_jupyters_token_is_the_owners_beside_users_who_are_known(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    server = start(start_jupyter, tmp_path, "--ServerApp.identity_provider_class=own_users.Both")

    async def work() -> None:
        async def who(http: httpx.AsyncClient) -> str:
            """Return how the gateway takes a caller: only the owner may see which gateways it has joined."""
            answer = await http.get("/nodes/connections")
            return "owner" if answer.status_code == 200 else str(answer.json().get("code"))

        async with httpx.AsyncClient(base_url=server.mount, headers=server.jupyter_headers, timeout=20) as http:
            assert await who(http) == "owner"
            assert http.cookies
            del http.headers["Authorization"]
            assert await who(http) == "owner"  # by the cookie that came with it
        async with httpx.AsyncClient(base_url=server.mount, timeout=20) as http:
            assert (await http.get(f"/nodes?token={server.jupyter_token}")).status_code == 200
            assert await who(http) == "owner"
        headers = {"X-Forwarded-User": "bob"}
        async with httpx.AsyncClient(base_url=server.mount, headers=headers, timeout=20) as http:
            assert await who(http) == "not_owner"
        # Whoever picks such a name, and is known by such an id, is still themself.
        headers = {"X-Forwarded-User": "0123456789abcdef" * 2, "X-Forwarded-Name": "Anonymous Io"}
        async with httpx.AsyncClient(base_url=server.mount, headers=headers, timeout=20) as http:
            assert await who(http) == "not_owner"
        async with httpx.AsyncClient(base_url=server.mount, headers={"X-Forwarded-User": "b\u202eb".encode()}) as http:
            assert await who(http) == "forbidden"

    asyncio.run(asyncio.wait_for(work(), 60))
    assert "can't tell users apart" not in server.log.read_text()


def test_jupyters_own_provider_makes_everybody_the_owner(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    server = start(start_jupyter, tmp_path, "--SuzentApp.orgs=ada=red")
    answer = httpx.get(f"{server.mount}/nodes/connections", headers=server.jupyter_headers, timeout=20)
    assert answer.status_code == 200
    assert "can't tell users apart: whoever is let in is 'ada'" in server.log.read_text()
