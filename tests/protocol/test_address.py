"""Hosts in addresses."""

from __future__ import annotations

import pytest

from suzent_jupyter.protocol.address import in_url, is_loopback_host


def test_hosts_in_urls() -> None:
    assert (in_url("fd12::5"), in_url("10.0.0.1"), in_url("a.ts.net")) == ("[fd12::5]", "10.0.0.1", "a.ts.net")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("", False),
        ("128.0.0.1", False),
        ("a.localhost", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, local: bool) -> None:
    assert is_loopback_host(host) is local
