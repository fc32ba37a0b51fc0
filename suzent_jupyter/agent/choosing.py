"""Asks a model which node suits a prompt: one request, one JSON object back, nothing repeated."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from importlib import import_module
from typing import Any

from ..protocol.limits import Limits
from .clients import Endpoint, model_of
from .failures import turn_error


async def warm(model_name: str, limits: Limits) -> None:
    """Load what asking takes; what is wrong with the model is said when it is asked."""
    with contextlib.suppress(Exception):
        await model_of(_endpoint(model_name, limits))
        await asyncio.to_thread(import_module, "pydantic_ai.direct")


async def choose(model_name: str, limits: Limits, system: str, user: str, schema: dict[str, Any]) -> str:
    """Return what a model answers, as it came.

    Parameters
    ----------
    model_name : str
        As :func:`.model.make_model_agent` takes it.
    limits : Limits
        ``router_timeout`` bounds silence on the connection; whoever asks bounds the whole.
    system, user : str
        The instructions, and the data they speak of.
    schema : dict
        JSON Schema of the one object that may be answered (structured output of OpenAI's chat completions).

    Raises
    ------
    SuzentError
        As :func:`.clients.model_of`, and ``model_failed`` when the model or its server fails; without secrets.
    """
    endpoint = _endpoint(model_name, limits)
    model = await model_of(endpoint)
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, TextPart, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    wanted = OutputObjectDefinition(json_schema=schema, name="choice", strict=True)
    try:
        answer = await model_request(
            model,
            [ModelRequest(parts=[SystemPromptPart(system), UserPromptPart(user)])],
            model_request_parameters=ModelRequestParameters(output_mode="native", output_object=wanted),
        )
    except Exception as error:
        raise turn_error(error, endpoint, 1, 1) from None
    return "".join(part.content for part in answer.parts if isinstance(part, TextPart))


def _endpoint(model_name: str, limits: Limits) -> Endpoint:
    return replace(Endpoint.read(model_name, limits), timeout=limits.router_timeout)
