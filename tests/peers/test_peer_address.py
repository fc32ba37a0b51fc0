"""What people type for a peer's address, and references to its files."""

from __future__ import annotations

import pytest

from suzent_jupyter.peers.address import PeerAddress, peer_address
from suzent_jupyter.peers.references import with_local_urls

PIN = "A" * 43


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("lab", PeerAddress("http://lab:25314")),
        ("192.168.1.5", PeerAddress("http://192.168.1.5:25314")),
        ("192.168.1.5:9", PeerAddress("http://192.168.1.5:9")),
        ("[2001:DB8::1]:9", PeerAddress("http://[2001:db8::1]:9")),
        ("http://Lab.:80/", PeerAddress("http://lab")),
        ("ws://lab:9/ws/node", PeerAddress("http://lab:9")),
        ("wss://lab:9/ws/node", PeerAddress("https://lab:9")),
        ("http://hub:8888/user/ada%40x/suzent", PeerAddress("http://hub:8888/user/ada%40x/suzent")),
        ("http://user:secret@lab:9/suzent/ws/node", PeerAddress("http://lab:9/suzent")),
        (f"https://lab:25315/node#join=t&pin={PIN}&id=g1", PeerAddress("https://lab:25315", PIN, "g1")),
        ("https://lab:25315/suzent/node#join=t", PeerAddress("https://lab:25315/suzent", "")),
        ("http://lab:25314/node#join=t&id=g1", PeerAddress("http://lab:25314", None, "g1")),
    ],
)
def test_an_address(typed: str, expected: PeerAddress) -> None:
    assert peer_address(typed) == expected


@pytest.mark.parametrize("typed", ["", " ", "ftp://lab", "http://lab?x=1", "http://", "a b", "lab:0", "lab:x"])
def test_none(typed: str) -> None:
    with pytest.raises(ValueError):
        peer_address(typed)


def test_file_references_lead_through_this_gateway() -> None:
    reference = {"id": "a/b", "url": "/nodes/peer-files/a/b", "name": "x"}
    answer = {"files": [reference], "plain": {"id": "c", "url": "http://127.0.0.1/nodes/peer-files/c"}, "n": 1}
    assert with_local_urls(answer, "p1") == {
        "files": [{**reference, "url": "/nodes/peers/p1/files/a%2Fb", "peer_id": "p1"}],
        "plain": answer["plain"],
        "n": 1,
    }
    assert answer["files"] == [reference]
