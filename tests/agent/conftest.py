"""What the tests of agents share: one model server, and short ways to run a turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.model_server import ModelServer


@pytest.fixture(scope="session")
def _model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with ModelServer(Path(tmp_path_factory.mktemp("model"))) as server:
        yield server


@pytest.fixture
def model_server(_model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    """A local OpenAI-compatible server; the environment names it, without a key."""
    _model_server.clear()
    monkeypatch.setenv("OPENAI_BASE_URL", _model_server.url)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return _model_server
