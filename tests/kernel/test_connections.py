"""Joining another gateway from a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from support.gateways import ThreadedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway
from suzent_jupyter.kernel.connections import Connection
from suzent_jupyter.kernel.errors import KernelError

MakeGateway = Callable[..., ThreadedGateway]


def test_verbs(shell: Any, make_gateway: MakeGateway) -> None:
    empty = shell.run("%suzent connections")
    lab = make_gateway(account="bob")
    joined = shell.run(f"%suzent connect {lab.url} --name 'My desk' --capabilities system.*")
    code = joined["pairing_code"]
    assert (joined["status"], joined["display_name"], joined["capabilities"]) == ("pending", "My desk", ["system.info"])
    shown = shell.formatted(joined)
    assert " ".join(code) in shown["text/plain"] and f"%suzent approve {code}" in shown["text/plain"]
    assert code in shown["text/html"] and "2em" in shown["text/html"]
    asyncio.run(lab.approve(code))
    wait_for(lambda: list(shell.run("%suzent connections")["status"]) == ["connected"])
    frame = shell.run("%suzent connections")
    assert list(frame.index) == [lab.node_url]
    pd.testing.assert_series_equal(empty.dtypes, frame.dtypes)
    assert frame["status"].iloc[0] == "connected" and frame["since"].dt.tz is not None
    assert "Connected to" in repr(shell.run(f"%suzent connect {lab.url}"))

    facts = shell.run("%suzent host --name 'Ada desk'")
    assert facts["name"] == "Ada desk" and "system.info" in facts["offers"]
    assert facts[lab.node_url] == "connected"

    assert [text for _, text in shell.complete("%suzent disconnect ws")] == [lab.node_url]
    assert repr(shell.run(f"%suzent disconnect {lab.url}")) == f"Disconnected from {lab.node_url}."
    assert shell.run("%suzent connections")["status"].iloc[0] == "stopped"
    shell.run(f"%suzent disconnect {lab.url}")
    assert shell.run("%suzent connections").empty
    error = shell.fail(f"%suzent disconnect {lab.url}")
    assert error.code == "connection_unknown"
    assert shell.fail("%suzent connect ws://127.0.0.1:9").code == "gateway_unreachable"


def test_python(gw: Gateway, gateway: ThreadedGateway) -> None:
    assert gw.connections.empty
    with pytest.raises(KernelError) as refused:
        gw.connect_to(gateway.url)
    assert refused.value.code == "own_gateway"
    with pytest.raises(KernelError):
        gw.disconnect_from("ws://127.0.0.1:9")


EVIL = "<img src=x onerror=alert(1)>\x1b[2J; rm -rf ~"


@pytest.mark.parametrize("status", ["connecting", "pending", "connected", "reconnecting", "refused", "stopped"])
def test_what_the_other_side_says_is_harmless(status: str) -> None:
    record = {"gateway_url": EVIL, "display_name": EVIL, "pairing_code": EVIL, "error": EVIL, "capabilities": [EVIL]}
    connection = Connection(record, status=status, pending_approval=[EVIL])
    bundle = connection._repr_mimebundle_()
    assert "<img" not in bundle["text/html"]
    for text in bundle.values():
        assert "\x1b" not in text
        assert "approve <" not in text and "approve &lt;" not in text  # no stranger's text in a command
