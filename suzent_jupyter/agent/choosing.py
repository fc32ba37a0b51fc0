"""Asks a model which node suits a prompt: one request, one JSON object back, nothing repeated."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from importlib import import_module
from typing import Any

from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.text import clean_text
from .clients import Endpoint, model_of
from .failures import turn_error


class AskFailed(Exception):  # noqa: N818 - an end, not an error of ours
    """The model gave no answer; the text says why, without secrets."""


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
    AskFailed
        When the model or its server fails.
    """
    try:
        endpoint = _endpoint(model_name, limits)
        model = await model_of(endpoint)
    except SuzentError as error:
        raise _failed(error) from None
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
        raise _failed(turn_error(error, endpoint, 1, 1)) from None
    return "".join(part.content for part in answer.parts if isinstance(part, TextPart))


def _endpoint(model_name: str, limits: Limits) -> Endpoint:
    return replace(Endpoint.read(model_name, limits), timeout=limits.router_timeout)


def _failed(error: SuzentError) -> AskFailed:
    text = clean_text(error.message, 300)
    return AskFailed(text[0].lower() + text[1:].rstrip(".") if text else "the model gave no answer")
