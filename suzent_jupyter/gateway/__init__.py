"""The hub that devices join and callers go through: plain asyncio, without Tornado or Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names
from .principals import Authority, Principal

if TYPE_CHECKING:
    from .gateway import Gateway

__all__ = ["Authority", "Gateway", "Principal"]

__getattr__ = lazy_names(__name__, {"Gateway": "gateway"})
