"""Models and their HTTP connections: made off the event loop, kept from turn to turn, closed when the gateway stops.

Nothing here loads pydantic-ai before the first turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from ..protocol.address import is_loopback_host
from ..protocol.errors import SuzentError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from ..protocol.limits import Limits

log = logging.getLogger("suzent_jupyter")

_OPENAI = ("openai", "openai-chat", "openai-responses")
_OPENAI_HOST = "api.openai.com"
_CONNECT_SECONDS = 10.0
_PLACEHOLDER_KEY = "none"  # the client insists on one; servers of one's own mostly don't
INSTALL = "`pip install 'suzent-jupyter[agent]'`, then restart the server."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a model is reached by, as the environment says now.

    Attributes
    ----------
    model_name : str
        As the setting says.
    base_url : str
        Of an OpenAI-compatible server, without user and password; ``""`` for OpenAI itself.
    """

    model_name: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)
    timeout: float = 120.0
    patience: float = 20.0

    @classmethod
    def read(cls, model_name: str, limits: Limits) -> Endpoint:
        """Read ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.

        Raises
        ------
        SuzentError
            ``model_failed`` where the former is no URL.
        """
        try:
            base_url, login = _without_login(os.environ.get("OPENAI_BASE_URL", "").strip())
        except ValueError:
            raise SuzentError(
                "model_failed",
                "The model can't be asked: OPENAI_BASE_URL is no valid URL.",
                hint="Correct it, such as http://127.0.0.1:11434/v1, and restart the server.",
            ) from None
        return cls(
            model_name,
            base_url,
            os.environ.get("OPENAI_API_KEY", "").strip(),
            login,
            limits.model_timeout,
            limits.model_patience,
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not appear in any message."""
        return tuple(secret for secret in (self.api_key, *(self.login or ())) if len(secret) > 3)


@dataclass(slots=True)
class _Client:
    model: Model
    close: Callable[[], Awaitable[None]] | None = None


# By loop, since connections belong to one.
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Endpoint, _Client]] = WeakKeyDictionary()


async def model_of(endpoint: Endpoint) -> Model:
    """Return the model, made on first use.

    Raises
    ------
    SuzentError
        ``no_agent`` where pydantic-ai is not installed; ``model_failed`` for a name that means nothing, a missing
        key, or a provider whose own package is not installed.
    """
    known = _clients.setdefault(asyncio.get_running_loop(), {})
    if endpoint not in known:
        # Imports take a second, certificates are read from disk. Two first turns at once make two; one is kept.
        client = await asyncio.to_thread(_make, endpoint)
        if endpoint in known:
            await _close(client)
        else:
            known[endpoint] = client
    return known[endpoint].model


async def close_clients() -> None:
    """Close the connections that were made on this event loop."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await _close(client)


async def _close(client: _Client) -> None:
    try:
        if client.close is not None:
            await client.close()
    except Exception as error:  # the gateway stops, or goes on, all the same
        log.warning("A model's connections did not close cleanly: %s", type(error).__name__)


def _make(endpoint: Endpoint) -> _Client:
    try:
        import pydantic_ai
    except ImportError:
        message = "This gateway's model needs pydantic-ai, which is not installed."
        raise SuzentError("no_agent", message, hint=INSTALL) from None
    try:
        api, name = _api(endpoint)
        return _openai(endpoint, api, name) if api else _other(endpoint)
    except ImportError as error:
        raise SuzentError(
            "model_failed",
            f"The model '{endpoint.model_name[:128]}' needs a package that is missing: {error.name or 'its own'}.",
            hint=f"Install pydantic-ai-slim with that provider's extra; for OpenAI: {INSTALL}",
        ) from None
    except pydantic_ai.UserError as error:
        message = str(error).partition("\n")[0][:300]
        raise SuzentError("model_failed", f"The model can't be used: {message}") from None


def _api(endpoint: Endpoint) -> tuple[str, str]:
    """Return which of OpenAI's APIs to speak, ``chat`` or ``responses``, and the model's name there; or two empty."""
    from pydantic_ai.providers import infer_provider_class

    prefix, colon, name = endpoint.model_name.partition(":")
    usual = "chat" if endpoint.base_url and urlsplit(endpoint.base_url).hostname != _OPENAI_HOST else "responses"
    if colon and prefix in _OPENAI:
        return usual if prefix == "openai" else prefix.removeprefix("openai-"), name
    if endpoint.model_name == "test":
        return "", ""
    if not colon:
        return usual, endpoint.model_name
    try:
        infer_provider_class(prefix)
    except ValueError:
        if endpoint.base_url:  # such as `qwen3:8b`: a colon is common in what other servers call their models
            return usual, endpoint.model_name
    except ImportError:
        pass  # known, but its package is missing: said by who makes the model
    return "", ""


def _openai(endpoint: Endpoint, api: str, name: str) -> _Client:
    if not endpoint.api_key and not endpoint.base_url:
        raise SuzentError(
            "model_failed",
            f"The model '{endpoint.model_name[:128]}' needs a key for OpenAI, and none is set.",
            hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, and restart the Jupyter server.",
        )
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    from .patience import PatientModel

    host = urlsplit(endpoint.base_url).hostname or _OPENAI_HOST
    http = httpx2.AsyncClient(
        timeout=httpx2.Timeout(endpoint.timeout, connect=min(_CONNECT_SECONDS, endpoint.timeout)),
        auth=endpoint.login,
        trust_env=not is_loopback_host(host),  # a proxy can't reach this machine's own servers
    )
    client = AsyncOpenAI(
        base_url=endpoint.base_url or f"https://{_OPENAI_HOST}/v1",
        api_key=endpoint.api_key or _PLACEHOLDER_KEY,
        http_client=http,
        max_retries=0,
    )
    provider = (
        OpenAIProvider(openai_client=client)
        if host == _OPENAI_HOST
        else OpenAICompatibleProvider("openai-compatible", openai_client=client)
    )
    model: Model
    if api == "chat":
        # Every server gives a reason when an answer is complete; one that ends without was cut off.
        complete = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
        model = OpenAIChatModel(name, provider=provider, profile=complete)
    else:
        model = OpenAIResponsesModel(name, provider=provider)
    return _Client(PatientModel(model, endpoint.patience), http.aclose)


def _other(endpoint: Endpoint) -> _Client:
    from pydantic_ai.models import infer_model

    model = infer_model(endpoint.model_name)

    async def close() -> None:
        await model.__aexit__(None, None, None)

    return _Client(model, close)


def _without_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return a URL without user and password, and these."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(user), unquote(password))
