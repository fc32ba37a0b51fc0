"""A real device against a gateway that the test plays word by word, over a real socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import hosts

from suzent_jupyter.cli.conformance.played_gateway import played_gateway
from suzent_jupyter.node import NodeHost
from suzent_jupyter.node.capability import registry


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what one test declares out of the next, and out of the machine's keyring."""
    monkeypatch.setenv("SUZENT_KEYRING", "off")
    before = dict(registry)
    registry.clear()
    yield
    registry.clear()
    registry.update(before)


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., NodeHost]:
    """Run ``script(gateway, host)`` while a host with these options is joined; return the host afterwards."""
    return lambda script, **options: hosts.play(played_gateway, script, tmp_path / "vault", **options)
