"""The hub that devices join and callers go through: plain asyncio, without Tornado or Jupyter."""

from .gateway import Gateway
from .principals import Authority, Principal

__all__ = ["Authority", "Gateway", "Principal"]
