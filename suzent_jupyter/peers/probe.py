"""Is there a gateway at an address? Asked before joining, so that a wrong address fails at once and loudly."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI

from ..node.address import is_loopback
from ..node.direct import Direct, quiet
from ..node.pin import is_secure, tls_context
from ..protocol.errors import SuzentError
from ..protocol.text import clean_text

_TRY_LATER = frozenset([408, 425, 429])


async def probe(url: str, seconds: float) -> None:
    """Open a WebSocket at ``url`` and close it again, within ``seconds``.

    A certificate that no authority vouches for passes: whether it is the right one is for the join to say.

    Raises
    ------
    SuzentError
        ``gateway_unreachable`` when nothing answers in time, ``not_a_gateway`` when something else does.
    """
    options: dict[str, Any] = {
        "logger": quiet,
        "compression": None,
        "ping_interval": None,
        "close_timeout": 0.5,
        "open_timeout": None,
    }
    if is_loopback(url):
        options["proxy"] = None
    if is_secure(url):
        options["ssl"] = await asyncio.to_thread(tls_context)  # it reads the authorities' certificates
    try:
        async with asyncio.timeout(seconds):
            async with Direct(url, **options):
                pass
    except TimeoutError:
        raise _unreachable(url, f"nothing answered within {seconds:g} s") from None
    except InvalidStatus as error:
        status = error.response.status_code
        if status >= 500 or status in _TRY_LATER:
            raise _unreachable(url, f"it answered {status}") from None
        raise _no_gateway(url, f"it answered {status} instead of a WebSocket") from None
    except (InvalidMessage, EOFError):
        raise _no_gateway(url, "what answered does not speak HTTP") from None
    except ssl.SSLCertVerificationError:
        return
    except ssl.SSLError:
        raise _no_gateway(url, "what answered does not speak TLS; try ws:// instead of wss://") from None
    except (InvalidHandshake, InvalidURI):
        raise _no_gateway(url, "what answered is no WebSocket") from None
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise _unreachable(url, clean_text(text, 200)) from None


def _unreachable(url: str, why: str) -> SuzentError:
    return SuzentError("gateway_unreachable", f"{url} can't be reached: {why}.")


def _no_gateway(url: str, why: str) -> SuzentError:
    return SuzentError("not_a_gateway", f"{url} is no gateway: {why}.")
