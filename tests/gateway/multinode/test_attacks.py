"""Every JWT that is no proof is refused with a code of its own, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from support.gateways import ThreadedGateway
from support.keyed import Key, KeyedNode, admit, multinode_url
from support.running import sync, until

Challenge = dict[str, Any]


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def by_hand(header: Any, claims: Any, signature: Callable[[bytes], bytes]) -> str:
    """Put a JWT together that no library would."""
    signed = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{signed}.{b64(signature(signed.encode()))}"


def unsigned(key: Key, challenge: Challenge) -> str:
    return by_hand({"alg": "none", "jwk": key.jwk, "kid": key.kid}, key.claims(challenge), lambda signed: b"")


def hs256(secret: Callable[[Key], bytes]) -> Callable[[Key, Challenge], str]:
    def make(key: Key, challenge: Challenge) -> str:
        header = {"alg": "HS256", "typ": "JWT", "jwk": key.jwk, "kid": key.kid}
        return by_hand(
            header, key.claims(challenge), lambda signed: hmac.new(secret(key), signed, hashlib.sha256).digest()
        )

    return make


def pem(key: Key) -> bytes:
    public = key.private.public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def private_part(key: Key) -> str:
    raw = serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    return b64(key.private.private_bytes(*raw))


def header(**members: Any) -> Callable[[Key, Challenge], str]:
    return lambda key, challenge: key.sign(challenge, header=members)


def claims(**members: Any) -> Callable[[Key, Challenge], str]:
    return lambda key, challenge: key.sign(challenge, **members)


def claims_by_hand(value: Any) -> Callable[[Key, Challenge], str]:
    return lambda key, challenge: by_hand({"alg": "EdDSA", "jwk": key.jwk, "kid": key.kid}, value, key.private.sign)


def algorithm(name: Any) -> Callable[[Key, Challenge], str]:
    return lambda key, challenge: by_hand(
        {"alg": name, "jwk": key.jwk, "kid": key.kid}, key.claims(challenge), key.private.sign
    )


def tampered(key: Key, challenge: Challenge) -> str:
    """Claim what was not signed."""
    head, _, signature = key.sign(challenge, aud="elsewhere").split(".")
    return f"{head}.{b64(json.dumps(key.claims(challenge)).encode())}.{signature}"


ATTACKS: dict[str, tuple[str, Callable[[Key, Challenge], Any]]] = {
    "no algorithm": ("jwt_algorithm", unsigned),
    "HS256 with the public bytes": ("jwt_algorithm", hs256(lambda key: key.public)),
    "HS256 with the public PEM": ("jwt_algorithm", hs256(pem)),
    "HS256 with the JWK's text": ("jwt_algorithm", hs256(lambda key: key.jwk["x"].encode())),
    "algorithm in lower case": ("jwt_algorithm", algorithm("eddsa")),
    "an algorithm that is a list": ("jwt_algorithm", algorithm(["EdDSA"])),
    "Ed448 by name": ("jwt_algorithm", algorithm("Ed448")),
    "signed by another key": ("jwt_signature", lambda key, challenge: key.sign(challenge, key=Key().private)),
    "claims changed afterwards": ("jwt_signature", tampered),
    "no signature": (
        "jwt_signature",
        lambda key, challenge: key.sign(challenge).rpartition(".")[0] + ".",
    ),
    "a private key": (
        "jwt_key",
        lambda key, challenge: key.sign(challenge, {"jwk": {**key.jwk, "d": private_part(key)}}),
    ),
    "no key": ("jwt_key", header(jwk=None)),
    "a key that is text": ("jwt_key", header(jwk="key")),
    "an RSA key": ("jwt_key", header(jwk={"kty": "RSA", "n": "AQAB", "e": "AQAB"})),
    "a symmetric key": ("jwt_key", header(jwk={"kty": "oct", "k": "AAAA"})),
    "an X25519 key": ("jwt_key", lambda key, challenge: key.sign(challenge, {"jwk": {**key.jwk, "crv": "X25519"}})),
    "a key with a certificate": (
        "jwt_key",
        lambda key, challenge: key.sign(challenge, {"jwk": {**key.jwk, "x5c": []}}),
    ),
    "a short key": ("jwt_key", lambda key, challenge: key.sign(challenge, {"jwk": {**key.jwk, "x": "AAAA"}})),
    "crit": ("jwt_malformed", header(crit=["exp"], exp=1)),
    "jku": ("jwt_key", header(jku="http://127.0.0.1:9/keys")),
    "x5u": ("jwt_key", header(x5u="http://127.0.0.1:9/chain")),
    "x5c": ("jwt_key", header(x5c=["AAAA"])),
    "x5t": ("jwt_key", header(**{"x5t#S256": "AAAA"})),
    "no kid": ("jwt_key", header(kid=None)),
    "the kid of another key": ("jwt_key", header(kid=Key().kid)),
    "a kid that is a path": ("jwt_key", header(kid="../../../../etc/passwd")),
    "a kid that is a device file": ("jwt_key", header(kid="/dev/null")),
    "a kid that is a query": ("jwt_key", header(kid="' OR 1=1 --")),
    "a kid with a zero byte": ("jwt_key", lambda key, challenge: key.sign(challenge, {"kid": key.kid + "\0"})),
    "another gateway": ("jwt_audience", claims(aud="another")),
    "no audience": ("jwt_audience", claims(aud=None)),
    "several audiences": (
        "jwt_audience",
        lambda key, challenge: key.sign(challenge, aud=[challenge["aud"], "another"]),
    ),
    "another nonce": ("jwt_nonce", claims(nonce="A" * 43)),
    "no nonce": ("jwt_nonce", claims(nonce=None)),
    "a nonce that is a number": ("jwt_nonce", claims(nonce=5)),
    "a nonce that is a list": ("jwt_nonce", lambda key, challenge: key.sign(challenge, nonce=[challenge["nonce"]])),
    "expired": ("jwt_expired", lambda key, challenge: key.sign(challenge, exp=challenge["ts"] / 1000 - 1)),
    "expired an hour ago": (
        "jwt_expired",
        lambda key, challenge: key.sign(challenge, exp=challenge["ts"] // 1000 - 3600),
    ),
    "good for 61 s": ("jwt_expired", lambda key, challenge: key.sign(challenge, exp=challenge["ts"] / 1000 + 61)),
    "good for a year": ("jwt_expired", lambda key, challenge: key.sign(challenge, exp=challenge["ts"] / 1000 + 3e7)),
    "good for longer than a float can say": ("jwt_expired", claims(exp=10**400)),
    "ended longer ago than a float can say": ("jwt_expired", claims(exp=-(10**400))),
    "milliseconds": ("jwt_expired", lambda key, challenge: key.sign(challenge, exp=challenge["ts"] + 60)),
    "no end": ("jwt_malformed", claims(exp=None)),
    "an end that is text": ("jwt_malformed", claims(exp="tomorrow")),
    "an end that is true": ("jwt_malformed", claims(exp=True)),
    "an end that is no number": ("jwt_malformed", claims(exp=float("nan"))),
    "an end that never comes": ("jwt_malformed", claims(exp=float("inf"))),
    "claims that are a list": ("jwt_malformed", claims_by_hand([1])),
    "claims that are text": ("jwt_malformed", claims_by_hand("aud")),
    "no JWT": ("jwt_malformed", lambda key, challenge: "hello"),
    "two dots": ("jwt_malformed", lambda key, challenge: ".."),
    "not ASCII": ("jwt_malformed", lambda key, challenge: "ü.ü.ü"),
    "a list": ("jwt_malformed", lambda key, challenge: ["jwt"]),
    "a header that is a list": ("jwt_malformed", lambda key, challenge: by_hand([], {}, key.private.sign)),
    "a kid that is a number": (
        "jwt_malformed",
        lambda key, challenge: by_hand({"alg": "EdDSA", "kid": 5}, {}, key.private.sign),
    ),
    "nested deeply": ("jwt_malformed", lambda key, challenge: f"{b64(b'[' * 2500)}.e30.AAAA"),
    "nothing": ("jwt_required", lambda key, challenge: ""),
    "null": ("jwt_required", lambda key, challenge: None),
    "5 KB": ("too_large", lambda key, challenge: key.sign(challenge, padding="x" * 5000)),
    "1 MB": ("too_large", lambda key, challenge: key.sign(challenge, padding="x" * 750_000)),
    "1 MB of nothing": ("too_large", lambda key, challenge: "x" * 2**20),
}
RETRYABLE = ("jwt_nonce", "jwt_expired")


def kept(gateway: ThreadedGateway) -> tuple[int, ...]:
    hub = gateway.service.gateway
    return (len(hub.pairing), len(hub.registry), len(hub.sessions), len(hub._clients), len(list(hub.devices)))


@sync
async def test_each_attack_is_refused_with_its_code_and_leaves_nothing(gateway: ThreadedGateway) -> None:
    url = multinode_url(gateway)

    async def attack(name: str) -> tuple[str, str, int]:
        make = ATTACKS[name][1]
        node = await KeyedNode(url).open()
        challenge = await node.ask()
        await node.send({**node.connect, "jwt": make(node.key, challenge)})
        return (name, *await node.refusal())

    seen = {name: (code, close) for name, code, close in await asyncio.gather(*map(attack, ATTACKS))}
    wanted = {
        name: (code, 1009 if code == "too_large" else 1013 if code in RETRYABLE else 1008)
        for name, (code, _) in ATTACKS.items()
    }
    assert seen == wanted
    assert kept(gateway) == (0, 0, 0, 0, 0)
    await until(lambda: len(gateway.service.gateway.sockets) == 0)


@pytest.mark.parametrize("off", [3600, -3600])
@sync
async def test_a_device_whose_clock_is_an_hour_off_gets_in(gateway: ThreadedGateway, off: int) -> None:
    node = await KeyedNode(multinode_url(gateway)).open()
    challenge = await node.ask()
    clock = challenge["ts"] / 1000 + off
    await node.send({**node.connect, "jwt": node.key.sign(challenge, iat=clock, nbf=clock)})
    await admit(gateway, node)
    await node.ws.close()


@sync
async def test_what_a_device_claims_to_be_counts_for_nothing(gateway: ThreadedGateway) -> None:
    node = await KeyedNode(multinode_url(gateway)).open()
    challenge = await node.ask()
    said = {"sub": "root", "org": "acme", "account": "eve", "iss": "eve", "node_id": "0" * 16, "scope": "enterprise"}
    frame = {**node.connect, **said, "jwt": node.key.sign(challenge, **said), "node": {**node.node, **said}}
    await node.send(frame)
    await admit(gateway, node)
    assert (node.hello["account"], node.hello["org"], node.hello["scope"]) == ("ada", "", "account")
    device = gateway.service.gateway.devices.by_id(node.node_id)
    assert device is not None
    assert (device.account, device.org, device.sharing) == ("ada", "", "account")
    await node.ws.close()


@sync
async def test_a_proof_is_good_once_and_on_its_own_socket(gateway: ThreadedGateway) -> None:
    url, key = multinode_url(gateway), Key()
    one, two = await KeyedNode(url, key=key).open(), await KeyedNode(url, key=key).open()
    proof = key.sign(await one.ask())
    await two.ask()
    await two.send({**two.connect, "jwt": proof})
    assert await two.refusal() == ("jwt_nonce", 1013)
    unasked = await KeyedNode(url, key=key).open()
    await unasked.send({**unasked.connect, "jwt": proof})
    assert await unasked.refusal() == ("jwt_nonce", 1013)
    await one.send({**one.connect, "jwt": proof})
    await admit(gateway, one)
    again = await KeyedNode(url, key=key).open()
    await again.ask()
    await again.send({**again.connect, "jwt": proof})
    assert await again.refusal() == ("jwt_nonce", 1013)
    # A new challenge ends the one before it.
    asked_twice = await KeyedNode(url, key=key).open()
    old = key.sign(await asked_twice.ask())
    await asked_twice.ask()
    await asked_twice.send({**asked_twice.connect, "jwt": old})
    assert await asked_twice.refusal() == ("jwt_nonce", 1013)
    await one.ws.close()


@sync
async def test_a_challenge_that_is_too_old_is_refused(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"nonce_ttl": 0.05})
    node = await KeyedNode(multinode_url(gateway)).open()
    challenge = await node.ask()
    loop = asyncio.get_running_loop()
    asked = loop.time()
    await until(lambda: loop.time() > asked + 0.06)
    await node.send({**node.connect, "jwt": node.key.sign(challenge)})
    assert await node.refusal() == ("jwt_expired", 1013)


@sync
async def test_a_proof_that_expired_on_its_way_is_refused(gateway: ThreadedGateway) -> None:
    """Its ``exp`` lay ahead when the challenge was given, and does no more when the proof comes."""
    node = await KeyedNode(multinode_url(gateway)).open()
    challenge = await node.ask()
    proof = node.key.sign(challenge, exp=challenge["ts"] / 1000 + 0.05)
    loop = asyncio.get_running_loop()
    asked = loop.time()
    await until(lambda: loop.time() > asked + 0.06)
    await node.send({**node.connect, "jwt": proof})
    assert await node.refusal() == ("jwt_expired", 1013)


@sync
async def test_a_challenge_relayed_by_another_gateway_is_refused(make_gateway: Any) -> None:
    """A gateway in the middle shows the challenge of the one it wants to enter; the device signs for whom it knows."""
    wanted, middle = make_gateway(), make_gateway()
    key = Key()
    async with KeyedNode(multinode_url(wanted), "LabPC", key) as node:
        await admit(wanted, node)
    relayed = await KeyedNode(multinode_url(wanted), "LabPC", key).open()
    challenge = await relayed.ask()
    pinned = middle.service.gateway.identity
    assert pinned != challenge["aud"]
    await relayed.send({**relayed.connect, "jwt": key.sign(challenge, aud=pinned)})
    assert await relayed.refusal() == ("jwt_audience", 1008)
    assert len(wanted.service.gateway.registry) == 0


@sync
async def test_the_key_of_a_device_is_no_token(gateway: ThreadedGateway) -> None:
    async with KeyedNode(multinode_url(gateway)) as node, gateway.http() as http:
        await admit(gateway, node)
        for text in (node.key.kid, node.key.jwk["x"], f"szt_{node.key.jwk['x']}", f"szt_{node.key.kid}"):
            assert (await http.get("/nodes", headers={"Authorization": f"Bearer {text}"})).status_code == 401


@sync
async def test_a_token_larger_than_any_first_frame_is_not_even_read(gateway: ThreadedGateway) -> None:
    node = await KeyedNode(multinode_url(gateway)).open()
    challenge = await node.ask()
    await node.send({**node.connect, "jwt": node.key.sign(challenge, padding="x" * 2**20)})
    assert (await node.closed())[0] == 1009
    assert kept(gateway) == (0, 0, 0, 0, 0)
