"""A model that is asked again when its server was busy: as often, and as late, as it says, within bounds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError, ModelTimeoutError
from pydantic_ai.models.wrapper import WrapperModel

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings

_RETRIES = 2
_FIRST_PAUSE = 0.5
_RETRIED = (408, 409, 429, 500, 502, 503, 504, 529)


class PatientModel(WrapperModel):
    """Asks again before the first word of an answer, never after it.

    Parameters
    ----------
    wrapped : Model
        The model.
    patience : float
        Seconds within which a request is repeated; a server that asks for more is not waited for (RFC 9110 section
        10.2.3).
    """

    def __init__(self, wrapped: Model, patience: float) -> None:
        super().__init__(wrapped)
        self._patience = patience

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Ask as the wrapped model does."""
        end = asyncio.get_running_loop().time() + self._patience
        for attempt in range(_RETRIES + 1):
            answered = False
            try:
                async with self.wrapped.request_stream(
                    messages, model_settings, model_request_parameters, run_context
                ) as stream:
                    answered = True
                    yield stream
                return
            except ModelAPIError as error:
                pause = _pause(error, attempt)
                if answered or attempt == _RETRIES or pause is None:
                    raise
                if asyncio.get_running_loop().time() + pause > end:
                    raise
            await asyncio.sleep(pause)


def _pause(error: ModelAPIError, attempt: int) -> float | None:
    """Return the seconds after which asking again may help; None if it won't."""
    if isinstance(error, ModelHTTPError):
        if error.status_code not in _RETRIED:
            return None
    elif not isinstance(error, ModelConnectionError) or isinstance(error, ModelTimeoutError):
        return None
    if error.retry_after is not None:
        return error.retry_after
    return _FIRST_PAUSE * 2.0**attempt * random.uniform(0.75, 1.0)  # noqa: S311
