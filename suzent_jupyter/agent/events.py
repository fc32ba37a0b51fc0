"""The model's run as AG-UI events, by the library's own conversion, without what says that a turn starts or ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ag_ui.core import BaseEvent
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.ui.ag_ui import AGUIEventStream


class InnerEvents(AGUIEventStream[None, str]):
    """The inside of a turn. An error closes what is open and is kept in :attr:`error`, for the caller to raise."""

    error: Exception | None = None

    async def before_stream(self) -> AsyncIterator[BaseEvent]:
        """Say nothing: the turn has started already."""
        return
        yield

    async def after_stream(self) -> AsyncIterator[BaseEvent]:
        """Say nothing: the turn is not over yet."""
        return
        yield

    async def on_error(self, error: Exception) -> AsyncIterator[BaseEvent]:
        """Keep the error."""
        self.error = error
        return
        yield

    async def on_cancelled(self, cancelled: RunCancelled) -> AsyncIterator[BaseEvent]:
        """Keep it likewise."""
        self.error = cancelled
        return
        yield
