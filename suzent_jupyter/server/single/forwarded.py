"""What a guest says about a request it forwards, and which of its headers travel on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from tornado.httputil import HTTPHeaders

from ..auth import is_forwarding

#: What proves that a guest speaks; see :class:`~.host_file.HostFacts`.
SECRET_HEADER = "X-Suzent-Guest"  # noqa: S105 - a name
CALLER_HEADER = "X-Suzent-Caller"
#: A guest holds this one open, and so learns at once that the gateway is gone.
LINE_PATH = "/guest"

#: RFC 9110 section 7.6.1, and what the next hop decides for itself.
_ONE_HOP = frozenset(
    [
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
_OURS = frozenset([SECRET_HEADER.casefold(), CALLER_HEADER.casefold()])
_CREDENTIALS = frozenset(["authorization", "cookie"])


@dataclass(frozen=True, slots=True)
class ForwardedCaller:
    """Who made a request, as the guest's Jupyter server found out.

    Attributes
    ----------
    kind : str
        ``user`` of the Jupyter server, allowed by its authorizer; ``token`` of ours, for the gateway to look at;
        ``nobody`` where anyone may come.
    peer : str
        The address at the other end of the guest's socket; ``""`` for a Unix socket.
    remote : str
        The client's address by the guest's rules for proxies.
    scheme : str
        ``http`` or ``https``, by the same rules.
    root : str
        Where the guest is mounted, such as ``/user/ada/suzent``: what the request's path began with.
    may_write : bool
        Whether the caller may also change things.
    account, org : str
        Whose account a ``user`` is, and their organisation, by the guest's settings; ``""`` for the others.
    """

    kind: Literal["user", "token", "nobody"]
    peer: str
    remote: str
    scheme: str
    root: str
    may_write: bool
    account: str
    org: str

    def encode(self) -> str:
        """Return the header's value."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> ForwardedCaller:
        """Read the header's value; ValueError if it is none."""
        try:
            caller = cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from error
        if caller.kind not in ("user", "token", "nobody"):
            raise ValueError("unknown kind of caller")
        if not (isinstance(caller.account, str) and isinstance(caller.org, str)):
            raise ValueError("an account and an organisation are text")
        if caller.kind == "user" and not caller.account:
            raise ValueError("a user of no account")
        return caller


def onward(headers: HTTPHeaders, caller: ForwardedCaller, secret: str) -> list[tuple[str, str]]:
    """Return the headers a guest sends on: without those of one hop, and without what authorises at Jupyter."""
    listed = {name.strip().casefold() for value in headers.get_list("Connection") for name in value.split(",")}
    # Nobody makes a proxy before us unseen by listing its headers as those of one hop.
    listed = {name for name in listed if not is_forwarding(name)}
    dropped = _ONE_HOP | _OURS | listed | (frozenset(["cookie"]) if caller.kind == "token" else _CREDENTIALS)
    kept = [(name, value) for name, value in headers.get_all() if name.casefold() not in dropped]
    return [*kept, (SECRET_HEADER, secret), (CALLER_HEADER, caller.encode())]


def travels_back(name: str) -> bool:
    """Tell whether a header of the answer is for the caller."""
    return name.casefold() not in _ONE_HOP and name.casefold() not in ("date", "server")
