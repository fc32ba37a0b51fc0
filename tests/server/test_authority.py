"""What is a token on the listener, and what is none. Who may call what: test_boundary.py."""

from __future__ import annotations

import base64

import httpx
import pytest
from support.authority import EXPECTED
from support.calls import error_of
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.server.routes import ROUTES


def test_every_route_has_the_authority_the_design_gives_it() -> None:
    assert {(route.method, route.path): route.authority.name.lower() for route in ROUTES} == EXPECTED


def basic(token: str, user: str = "suzent") -> str:
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


@sync
async def test_a_token_that_is_none_of_ours_is_no_token(gateway: ThreadedGateway) -> None:
    for headers in (
        {"Authorization": "Bearer jupyter-token"},
        {"Authorization": "token abc"},
        {"Authorization": "Basic !!!"},
        {"Authorization": basic("password")},
        {"Authorization": "Bearer"},
        {"Authorization": ""},
        {"X-Suzent-Token": "nonsense"},
        {"Cookie": f"szt={gateway.token}"},
    ):
        async with httpx.AsyncClient() as http:
            assert error_of(await http.get(f"{gateway.url}/nodes", headers=headers)) == (401, "unauthorized")
    async with httpx.AsyncClient() as http:
        assert error_of(await http.get(f"{gateway.url}/nodes?token={gateway.token}")) == (401, "unauthorized")


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"])
@sync
async def test_basic_is_not_taken_from_web_pages(gateway: ThreadedGateway, name: str) -> None:
    async with httpx.AsyncClient() as http:
        headers = {"Authorization": basic(gateway.token), name: gateway.url if name == "Origin" else "same-origin"}
        assert error_of(await http.get(f"{gateway.url}/nodes", headers=headers)) == (401, "unauthorized")
        headers["Authorization"] = f"Bearer {gateway.token}"
        assert (await http.get(f"{gateway.url}/nodes", headers=headers)).status_code == 200


@sync
async def test_nothing_unknown_says_who_may(gateway: ThreadedGateway) -> None:
    async with httpx.AsyncClient() as http:
        for path in ("/", "/api/kernels", "/lab", "/files/x", "/metrics", "/static/x", "/api/terminals"):
            assert error_of(await http.get(gateway.url + path)) == (404, "no_route")
