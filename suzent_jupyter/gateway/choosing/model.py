"""The model that chooses, asked by way of :mod:`suzent_jupyter.agent`."""

from __future__ import annotations

from ...agent.choosing import AskFailed, choose
from ...protocol.limits import Limits
from ...routing.semantic import Ask, AskFailedError, Question


def ask_of(model_name: str, limits: Limits) -> Ask:
    """Return what asks a model."""

    async def ask(question: Question) -> str:
        try:
            return await choose(model_name, limits, question.system, question.user, question.schema)
        except AskFailed as failed:
            raise AskFailedError(str(failed)) from None

    return ask
