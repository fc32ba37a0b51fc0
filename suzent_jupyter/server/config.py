"""Configuration traits of the Jupyter extension and the stand-alone gateway; section ``SuzentApp`` for both."""

from __future__ import annotations

import getpass
import os
import platform
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir
from traitlets import Bool, Dict, Enum, Float, Int, List, Unicode, default, validate
from traitlets.config import Configurable

from ..gateway.settings import Settings
from ..protocol.address import DEFAULT_PORT, DEFAULT_TLS_PORT
from ..protocol.limits import Limits, describe_limits
from ..protocol.text import clean_text
from .service import ServiceConfig, in_binder, under_hub


def _limit_traits() -> dict[str, Any]:
    traits: dict[str, Any] = {}
    for name, (value, unit, why) in describe_limits().items():
        kind: Any = Int if isinstance(value, int) else Float
        traits[name] = kind(value, help=f"{why} [{unit}]").tag(config=True)
    return traits


LimitTraits: Any = type("LimitTraits", (Configurable,), {"__module__": __name__, **_limit_traits()})


class SuzentTraits(LimitTraits):  # type: ignore[misc]
    """Every setting of the gateway, and every number of its protocol."""

    nodes_enabled = Bool(True, help="Accept node connections and calls.").tag(config=True)
    node_discovery_enabled = Bool(True, help="Advertise this gateway and look for others.").tag(config=True)
    node_lan_bind = Bool(False, help="Bind the listener for other devices; takes effect after a restart.").tag(
        config=True
    )
    display_name = Unicode(help="How this gateway calls itself; the host name by default.").tag(config=True)
    denied_commands = List(Unicode(), help="Glob patterns of commands never dispatched, whoever asks.").tag(config=True)

    listener_enabled = Bool(True, help="Serve devices on a port of their own.").tag(config=True)
    listener_port = Int(DEFAULT_PORT, min=0, max=65535, help="That port; 0 means any free one.").tag(config=True)
    trust_loopback = Enum(
        ["never", "auto"],
        "never",
        help="'auto': requests to the listener without a token are trusted if they really come from a local program "
        "of the same user. Never under JupyterHub.",
    ).tag(config=True)
    tls = Enum(
        ["off", "auto"],
        "off",
        help="'auto': serve TLS on a port of its own, under a self-signed certificate "
        "whose key the pairing links carry.",
    ).tag(config=True)
    tls_port = Int(DEFAULT_TLS_PORT, min=0, max=65535, help="That port; 0 means any free one.").tag(config=True)
    certfile = Unicode("", help="Certificate chain (PEM) to serve TLS with; set together with keyfile.").tag(
        config=True
    )
    keyfile = Unicode("", help="Its key (PEM, without a passphrase).").tag(config=True)
    listener_plaintext = Bool(
        True, help="False: the port without TLS stays on this machine, also with node_lan_bind."
    ).tag(config=True)
    allowed_hosts = List(
        Unicode(), help="Further host names under which web pages may reach the listener, such as that of a proxy."
    ).tag(config=True)
    require_ticket = Bool(
        help="Let only invited devices wait for approval: they bring a ticket from a pairing link or QR code. "
        "On by default under JupyterHub and Binder, where strangers reach the handshake."
    ).tag(config=True)
    agent_model = Unicode(
        "", help="The model that answers prompts, such as openai:gpt-5 or openai-chat:NAME with OPENAI_BASE_URL."
    ).tag(config=True)
    artifact_url = Unicode(
        "",
        help="Where files too large for frames are kept for a while, as fsspec names it (file:///…, s3://bucket/…); "
        "empty: a directory in data_dir.",
    ).tag(config=True)
    router_model = Unicode(
        "", help="The model that chooses the node for a prompt; without one, words and recency decide."
    ).tag(config=True)
    multi_user = Bool(
        False,
        help="Give each user of this Jupyter server an account of their own; needs an identity provider that "
        "tells users apart. Otherwise everybody who may log in is `account`.",
    ).tag(config=True)
    orgs = Dict(
        value_trait=Unicode(),
        help="User, or Hub group as `@group`, -> organisation, where `org` does not say it for all.",
    ).tag(config=True)
    data_dir = Unicode(help="Where the gateway keeps its database.").tag(config=True)
    account = Unicode(help="Who owns this gateway; the Hub or OS user by default.").tag(config=True)
    org = Unicode("", help="Their organisation, for nodes shared with a team.").tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(Path(jupyter_data_dir()) / "suzent")

    @default("require_ticket")
    def _default_require_ticket(self) -> bool:
        return under_hub() or in_binder()

    @default("account")
    def _default_account(self) -> str:
        return os.environ.get("JUPYTERHUB_USER") or getpass.getuser()

    @default("display_name")
    def _default_display_name(self) -> str:
        return clean_text(platform.node(), 64) or "Jupyter"

    @validate("display_name")
    def _clean_display_name(self, proposal: Any) -> str:
        return clean_text(proposal["value"], 64) or "Jupyter"

    def service_config(self, mount_url: str | None = None) -> ServiceConfig:
        """Return the configuration as the service takes it.

        Raises
        ------
        ValueError
            When one of the limits is out of range; the message names it.
        """
        settings = Settings()
        given = {name for section in ("SuzentApp", type(self).__name__) for name in self.config.get(section, {})}
        names = settings.values().keys()
        settings.apply({name: getattr(self, name) for name in names})
        settings.fixed = frozenset(given & names)
        return ServiceConfig(
            data_dir=Path(self.data_dir).expanduser(),
            account=self.account,
            org=self.org,
            settings=settings,
            limits=Limits(**{name: getattr(self, name) for name in describe_limits()}),
            listener_enabled=self.listener_enabled,
            listener_port=self.listener_port,
            trust_loopback=self.trust_loopback,
            tls=self.tls,
            tls_port=self.tls_port,
            certfile=self.certfile,
            keyfile=self.keyfile,
            listener_plaintext=self.listener_plaintext,
            allowed_hosts=tuple(self.allowed_hosts),
            require_ticket=self.require_ticket,
            agent_model=self.agent_model,
            router_model=self.router_model,
            artifact_url=self.artifact_url,
            multi_user=self.multi_user,
            orgs=dict(self.orgs),
            mount_url=mount_url,
        )
