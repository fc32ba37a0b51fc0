from __future__ import annotations

import subprocess
import sys

import pytest

from suzent_jupyter.node import NodeHost, TokenVault, capability
from suzent_jupyter.node.capability import Capability, collect, registry


def test_bare_called_and_named() -> None:
    @capability
    def camera_snap() -> str:
        """Take a photo.

        With details.
        """
        return "snap"

    @capability("lamp.on", description="Switch the lamp on")
    async def lamp(level: int = 5) -> int:
        return level

    @capability()
    def plain() -> None: ...

    assert list(registry) == ["camera_snap", "lamp.on", "plain"]
    assert camera_snap() == "snap"
    assert registry["camera_snap"].description == "Take a photo."
    assert registry["lamp.on"].description == "Switch the lamp on"
    assert registry["lamp.on"].is_async and not registry["plain"].is_async
    assert registry["lamp.on"].declaration().params_schema == {"level": "int"}


def test_the_newest_of_a_name_counts() -> None:
    for value in (1, 2):

        @capability("same")
        def function(value: int = value) -> int:
            return value

    assert registry["same"].function() == 2


def test_methods_are_passed_bound() -> None:
    class Stage:
        @capability("stage.move", description="Move it")
        def move(self, x: float) -> float:
            return x

    # Classes in functions look like functions in functions; only module-level ones can be told apart from methods.
    registry.clear()
    found = collect([Stage().move])
    assert found["stage.move"].signature.params_schema == {"x": "float"}
    assert found["stage.move"].function(2.0) == 2.0


def test_methods_of_module_level_classes_are_not_collected() -> None:
    def move(self: object, x: float) -> float:
        return x

    move.__qualname__ = "Stage.move"
    capability("stage.move")(move)
    assert not registry


@pytest.mark.parametrize("name", ["", "a\x1b[0m", "x" * 129, "two\nlines"])
def test_names_that_no_gateway_takes(name: str) -> None:
    with pytest.raises(ValueError, match="not a name for a capability"):
        capability(name)(lambda: None)


def test_what_can_not_be_one() -> None:
    async def stream():  # type: ignore[no-untyped-def]
        yield 1

    with pytest.raises(TypeError, match="async generator"):
        capability(stream)
    with pytest.raises(TypeError, match="not a function"):
        Capability.of(3)  # type: ignore[arg-type]


def test_hosts_of_one_process_offer_different_things(tmp_path: object) -> None:
    @capability("camera.snap")
    def snap() -> None: ...

    @capability("camera.list")
    def cameras() -> None: ...

    @capability
    def echo() -> None: ...

    def other() -> None: ...

    def host(*items: object) -> list[str]:
        return sorted(NodeHost("h", capabilities=items or None, vault=TokenVault(str(tmp_path))).capabilities)

    assert host() == ["camera.list", "camera.snap", "echo"]
    assert host("camera.*", other) == ["camera.list", "camera.snap", "other"]
    assert host(snap, Capability.of(other, "mine")) == ["camera.snap", "mine"]
    with pytest.raises(ValueError, match=r"no capability 'lamp\.\*'; known: camera\.snap, camera\.list, echo"):
        host("lamp.*")


def test_importing_the_device_side_is_cheap() -> None:
    code = (
        "import sys, suzent_jupyter.node; "
        "print([m for m in ('cv2','PIL','psutil','numpy','pandas','keyring','cryptography','tornado','jupyter_server',"
        "'IPython') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
