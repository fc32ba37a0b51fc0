"""While the gateway starts or changes places, everybody is asked to come again: also those who bring no XSRF cookie."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"suzent_jupyter": True}}}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_503_and_when_to_come_again(jp_fetch: Any, method: str) -> None:
    # The fixture's server never runs the start hook.
    body = "{}" if method == "POST" else None
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("suzent", "nodes", "host-token", method=method, body=body, headers={"Authorization": "token x"})
    answer = refused.value.response
    assert answer is not None
    assert answer.code == 503
    assert json.loads(answer.body)["code"] == "stopping"
    assert json.loads(answer.body)["retryable"] is True
    assert answer.headers["Retry-After"] == "1"
