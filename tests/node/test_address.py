import pytest

from suzent_jupyter.node.address import is_loopback, socket_url
from suzent_jupyter.protocol.address import GATEWAY_PATH, http_base


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("192.168.1.10", "ws://192.168.1.10:25314/ws/node"),
        ("lab-pc.local:8000", "ws://lab-pc.local:8000/ws/node"),
        ("[fe80::1]", "ws://[fe80::1]:25314/ws/node"),
        ("[::1]:9", "ws://[::1]:9/ws/node"),
        ("ws://h:1/ws/node", "ws://h:1/ws/node"),
        ("ws://h:1/ws/node/", "ws://h:1/ws/node"),
        ("wss://hub.example/user/ada/suzent", "wss://hub.example/user/ada/suzent/ws/node"),
        ("http://h:1", "ws://h:1/ws/node"),
        ("https://H.example:1/user/a%40b/suzent/", "wss://h.example:1/user/a%40b/suzent/ws/node"),
        ("http://suzent:szt_secret@127.0.0.1:25314", "ws://127.0.0.1:25314/ws/node"),
        ("http://h:1/#part", "ws://h:1/ws/node"),
    ],
)
def test_addresses(address: str, url: str) -> None:
    assert socket_url(address) == url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("192.168.1.10", "ws://192.168.1.10:25314/ws/gateway"),
        ("[::1]:9", "ws://[::1]:9/ws/gateway"),
        ("ws://h:1/ws/node", "ws://h:1/ws/gateway"),
        ("ws://h:1/ws/gateway/", "ws://h:1/ws/gateway"),
        ("https://hub.example/user/ada/suzent", "wss://hub.example/user/ada/suzent/ws/gateway"),
        ("wss://hub.example/user/ada/suzent/ws/node", "wss://hub.example/user/ada/suzent/ws/gateway"),
        ("http://suzent:szt_secret@127.0.0.1:25314", "ws://127.0.0.1:25314/ws/gateway"),
    ],
)
def test_addresses_of_the_other_socket(address: str, url: str) -> None:
    assert socket_url(address, GATEWAY_PATH) == url
    assert socket_url(url) == url.replace("/ws/gateway", "/ws/node")
    assert http_base(url) == url.replace("ws", "http", 1).removesuffix("/ws/gateway")


@pytest.mark.parametrize(
    "address", ["ftp://h", "ws://", "ws://h:99999", "ws://h:port", "two words", "ws://h\x1b[0m", "h:0"]
)
def test_nonsense_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(ValueError, match="give one like ws://") as caught:
        socket_url(address)
    assert str(caught.value).isprintable()


def test_a_refused_address_never_shows_its_token() -> None:
    with pytest.raises(ValueError, match="That is not") as caught:
        socket_url("ftp://suzent:szt_secret@h")
    assert "szt_secret" not in str(caught.value)


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:szt_secret@127.0.0.1:4711/base/suzent")
    assert socket_url() == "ws://127.0.0.1:4711/base/suzent/ws/node"
    monkeypatch.delenv("SUZENT_BASE_URL")
    assert socket_url() == "ws://127.0.0.1:25314/ws/node"


def test_loopback() -> None:
    assert is_loopback("ws://127.0.0.1:1/x") and is_loopback("ws://localhost/x") and is_loopback("ws://[::1]:1")
    assert not is_loopback("ws://192.168.1.10:1/x")


def test_a_damaged_link_never_shows_its_ticket() -> None:
    with pytest.raises(ValueError, match="That is not") as caught:
        socket_url("htps://192.168.1.10:25315/node#join=secret-ticket")
    assert "secret-ticket" not in str(caught.value)
