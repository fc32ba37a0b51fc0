"""Tab after ``%suzent``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.gateways import ThreadedGateway
from support.waiting import wait_for

from .conftest import Phone, Shell


@pytest.fixture
def filled(shell: Shell, gateway: ThreadedGateway, make_phone: Callable[..., Phone]) -> Shell:
    """A shell whose cache knows two nodes and one waiting device."""
    make_phone(gateway, "MyPhone").approve()
    make_phone(gateway, "My Lab PC").approve()
    make_phone(gateway, "Other").code()
    mirror = shell.ip.suzent_magics.mirror()
    wait_for(lambda: len(mirror.items("nodes")) == 2 and len(mirror.items("pending")) == 1)
    return shell


def texts(shell: Shell, line: str) -> list[str]:
    return [text for _replaced, text in shell.complete(line)]


def test_completion(filled: Shell) -> None:
    assert texts(filled, "%suzent inv") == ["invoke", "invite"]
    assert "describe" in texts(filled, "%suzent ")
    assert filled.complete("%suzent describe my") == [("my", "MyPhone"), ("my", '"My Lab PC"')]
    assert filled.complete('%suzent describe "My ') == [('"My ', '"My Lab PC"')]
    assert texts(filled, 'photo = %suzent invoke "My Lab PC" cam') == ["camera.snap"]
    assert texts(filled, "%suzent invoke MyPhone camera.snap ") == [
        "format=", "format=png", "format=jpeg", "width=", "--params", "--timeout",
    ]  # fmt: skip
    assert texts(filled, "%suzent invoke MyPhone camera.snap format=j") == ["format=jpeg"]
    assert texts(filled, "%suzent invoke MyPhone camera.snap format=png wi") == ["width="]
    assert texts(filled, "%suzent invoke MyPhone my") == ['"my-odd command"']
    assert len(texts(filled, "%suzent approve ")) == 1
    assert texts(filled, "%suzent revoke My") == ["MyPhone", '"My Lab PC"']
    assert texts(filled, "%%suzent invoke MyPhone ec") == ["echo"]
    assert texts(filled, "x = 1\n%suzent pa") == ["pause"]
    assert texts(filled, "%suzent config node_l") == ["node_lan_bind"]
    assert texts(filled, "%suzent help app") == ["approve"]


def test_other_lines_are_left_alone(filled: Shell) -> None:
    assert "print" in texts(filled, "pri")
    assert "%suzent" in " ".join(texts(filled, "%suz"))
    assert "approve" not in texts(filled, "%%bash\n%%suzent app")


def test_the_older_interface_answers_too(filled: Shell) -> None:
    text, found = filled.ip.Completer.complete("invo", "%suzent invo", 12)
    assert (text, found) == ("invo", ["invoke"])


def test_changes_arrive_by_themselves(
    filled: Shell, gateway: ThreadedGateway, make_phone: Callable[..., Phone]
) -> None:
    make_phone(gateway, "Newcomer").approve()
    wait_for(lambda: texts(filled, "%suzent describe New") == ["Newcomer"])


def test_dictionary_keys_complete_at_the_first_tab(filled: Shell) -> None:
    filled.run("import suzent_jupyter as sz\ngw = sz.connect()")
    assert sorted(texts(filled, 'gw["My')) == ["My Lab PC", "MyPhone"]
    filled.ip.user_ns["gw"].close()


def test_a_node_in_brackets_completes(filled: Shell) -> None:
    filled.run("import suzent_jupyter as sz\ngw = sz.connect()\ngw.nodes")
    assert filled.complete('gw["MyPhone"].cam') == [("cam", "camera")]
    assert texts(filled, "x = [gw['My Lab PC'].camera.s") == ["snap"]
    assert "invoke" in texts(filled, 'gw["MyPhone"].')
    assert filled.complete('gw["MyPhone"].camera.snap(wid') == [("wid", "width=")]
    assert texts(filled, 'gw["MyPhone"].camera.snap(format="png", wi') == ["width="]
    assert "camera" not in texts(filled, 'gw["Nobody"].cam')
    assert "camera" not in texts(filled, 'other["MyPhone"].cam')
    filled.ip.user_ns["gw"].close()
