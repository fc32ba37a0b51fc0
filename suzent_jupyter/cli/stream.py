"""Reading the events of a turn from the gateway, as they come."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..kernel.gateway import Gateway

SILENCE_S = 60.0  # four heartbeats


def events(gateway: Gateway, path: str, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
    """Send a prompt and give its events; closing the iterator hangs up.

    Raises
    ------
    KernelError
        The gateway refused it, or the connection broke.
    """
    import httpx

    from ..kernel.errors import ConnectionLost
    from ..kernel.locate import unreachable
    from ..kernel.rest import CONNECT_TIMEOUT, _read
    from ..protocol.sse import EventReader

    rest = gateway._rest
    target = rest._locator.target
    trust = rest._locator.trust(target)
    client = rest._client(target, trust)
    reader = EventReader()
    timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_TIMEOUT)
    try:
        with client.stream("POST", target.url + path, json=body, headers=target.headers, timeout=timeout) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
                _read(target, answer)
            for piece in answer.iter_raw():
                for event in reader.feed(piece):
                    yield event.data
                if reader.done:
                    return
        for event in reader.close():
            yield event.data
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise unreachable(target, error) from None
    except httpx.HTTPError:
        raise ConnectionLost(
            "The connection to the gateway broke during the answer.", hint="The peer may still be at work."
        ) from None
