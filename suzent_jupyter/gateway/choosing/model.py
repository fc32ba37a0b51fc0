"""The model that chooses, asked by way of :mod:`suzent_jupyter.agent`."""

from __future__ import annotations

from ...agent.choosing import choose
from ...protocol.errors import SuzentError
from ...protocol.limits import Limits
from ...protocol.text import clean_text
from ...routing.semantic import Ask, AskFailedError, Question


def ask_of(model_name: str, limits: Limits) -> Ask:
    """Return what asks a model."""

    async def ask(question: Question) -> str:
        try:
            return await choose(model_name, limits, question.system, question.user, question.schema)
        except SuzentError as error:
            text = clean_text(error.message, 300)
            raise AskFailedError(text[:1].lower() + text[1:].rstrip(".")) from None

    return ask
