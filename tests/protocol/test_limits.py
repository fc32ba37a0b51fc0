"""The numbers that nodes, gateways and readers count on when nobody sets others."""

from __future__ import annotations

import pytest

from suzent_jupyter.protocol.limits import Limits, describe_limits

PROMISED: dict[str, float] = {
    "tick_interval": 30.0,
    "ticks_missed": 2,
    "nonce_ttl": 60.0,
    "jwt_lifetime": 60.0,
    "router_timeout": 3.0,
    "router_confidence": 0.5,
    "delta_throttle": 0.15,
    "dispatch_depth": 3,
    "run_ttl": 600.0,
    "run_kept": 3600.0,
    "permission_ttl": 300.0,
    "permission_history": 30 * 86400.0,
    "hoist_bytes": 64 * 1024,
    "transfer_shown": 4 * 1024 * 1024,
}


@pytest.mark.parametrize("name", PROMISED)
def test_a_number_that_is_promised(name: str) -> None:
    assert getattr(Limits(), name) == PROMISED[name]
    _number, unit, why = describe_limits()[name]
    assert unit and why
