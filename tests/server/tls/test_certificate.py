"""The gateway's own certificate: made once, renewed under the same key, and never overwritten."""

from __future__ import annotations

import logging
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from support.tls import make_certificate

from suzent_jupyter.protocol.pin import pin_of
from suzent_jupyter.server.tls import certificate as module
from suzent_jupyter.server.tls.certificate import CertificateError, OwnCertificate
from suzent_jupyter.server.tls.operator_certificate import OperatorCertificate
from suzent_jupyter.server.tls.port import server_context


def made(directory: Path, *names: str) -> OwnCertificate:
    own = OwnCertificate(directory, names)
    own.ensure()
    return own


def held(own: OwnCertificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(own.file.read_bytes())


def sans(own: OwnCertificate) -> set[str]:
    names = held(own).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_it_is_made_once(tmp_path: Path) -> None:
    own = OwnCertificate(tmp_path / "new" / "data", ["mybox.tail1234.ts.net"])
    assert own.ensure() is True
    certificate = held(own)
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    for file in (own.key_file, own.file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {"localhost", "127.0.0.1", "::1", "mybox.tail1234.ts.net"} <= sans(own)
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc <= now - timedelta(hours=12)  # clocks of devices are behind
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc <= timedelta(days=397)
    assert certificate.not_valid_after_utc > now + timedelta(days=390)
    assert own.pin() == pin_of(ssl.PEM_cert_to_DER_cert(own.file.read_text()))
    before = own.key_file.read_bytes(), own.file.read_bytes()
    assert own.ensure() is False
    assert made(tmp_path / "new" / "data", "mybox.tail1234.ts.net").pin() == own.pin()
    assert (own.key_file.read_bytes(), own.file.read_bytes()) == before
    assert sorted(each.name for each in own.file.parent.iterdir()) == ["tls.crt", "tls.key"]  # no drafts


def test_every_address_of_this_machine_is_in_it(tmp_path: Path) -> None:
    import psutil

    own = made(tmp_path)
    addresses = {
        each.address.partition("%")[0]
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family.name in ("AF_INET", "AF_INET6")
    }
    assert addresses
    assert addresses <= sans(own)


class Later(datetime):
    days = 0

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(days=cls.days)


@pytest.mark.parametrize(("days", "due"), [(0, False), (360, False), (370, True), (500, True), (-10, True)])
def test_renewal_keeps_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, due: bool) -> None:
    first = made(tmp_path)
    key = first.key_file.read_bytes()
    monkeypatch.setattr(Later, "days", days)
    monkeypatch.setattr(module, "datetime", Later)
    again = OwnCertificate(tmp_path)
    assert again.ensure() is due
    assert again.pin() == first.pin()
    assert again.key_file.read_bytes() == key
    assert again.ensure() is False


def test_a_new_address_renews_it(tmp_path: Path) -> None:
    first = made(tmp_path)
    first.names = ("elsewhere.example", "10.99.0.7", "Bücher.example", "not a name", "", "x" * 300)
    assert first.ensure() is True
    assert {"elsewhere.example", "10.99.0.7", "xn--bcher-kva.example"} <= sans(first)
    assert first.ensure() is False
    assert OwnCertificate(tmp_path).ensure() is False  # an address that is gone is no reason
    assert made(tmp_path).pin() == first.pin()


@pytest.mark.parametrize(
    "damage", [b"", b"\x00\xff", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_is_set_aside(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    first = made(tmp_path)
    first.key_file.write_bytes(damage)
    again = made(tmp_path)
    assert again.pin() != first.pin()
    [aside] = tmp_path.glob("tls.key.damaged-*")
    assert aside.read_bytes() == damage
    assert "was damaged" in caplog.text
    assert "new pairing link" in caplog.text
    server_context(again)


def test_a_damaged_certificate_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = made(tmp_path)
    for content in (b"garbage", make_certificate(tmp_path, "foreign").file.read_bytes()):
        first.file.write_bytes(content)
        again = made(tmp_path)
        assert again.pin() == first.pin()
        server_context(again)
    assert {each.read_bytes() == b"garbage" for each in tmp_path.glob("tls.crt.damaged-*")} >= {False}
    assert "the key that devices know" in caplog.text


def test_a_lost_key_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = made(tmp_path)
    first.key_file.unlink()
    assert first.ensure() is False  # it still knows it
    assert made(tmp_path).pin() == first.pin()
    first.key_file.unlink()
    assert caplog.text == ""
    assert made(tmp_path).pin() != first.pin()
    assert "is gone" in caplog.text
    assert "new pairing link" in caplog.text


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    tmp_path.joinpath("tls.key").mkdir()  # not even root reads that
    with pytest.raises(CertificateError, match=r"tls\.key can't be used"):
        made(tmp_path)
    assert [each.name for each in tmp_path.glob("tls.*")] == ["tls.key"]


def test_a_key_others_could_read_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = made(tmp_path)
    first.key_file.chmod(0o644)
    assert made(tmp_path).pin() == first.pin()
    assert stat.S_IMODE(first.key_file.stat().st_mode) == 0o600
    assert "could be read by other users" in caplog.text


def test_two_at_once_agree_on_one_key(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        pins = {own.pin() for own in pool.map(lambda _: made(tmp_path), range(8))}
    assert pins == {made(tmp_path).pin()}


def test_the_operators_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = make_certificate(tmp_path, "authority", authority=True)
    signed = make_certificate(tmp_path, "signed", signed_by=authority)
    operator = OperatorCertificate(str(signed.file), str(signed.key_file))
    assert operator.ensure() is True
    assert operator.ensure() is False
    assert operator.pin() == ""
    server_context(operator)
    renewed = make_certificate(tmp_path, "signed", signed_by=authority, days=(-20, -10))
    assert operator.ensure() is True
    assert "has expired" in caplog.text
    assert renewed.pin != signed.pin
    alone = make_certificate(tmp_path, "alone")
    self_signed = OperatorCertificate(str(alone.file), str(alone.key_file))
    self_signed.ensure()
    assert self_signed.pin() == alone.pin


def test_what_is_wrong_with_the_operators_files_is_said(tmp_path: Path) -> None:
    one, two = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    locked = make_certificate(tmp_path, "locked", passphrase=b"secret")
    junk, missing = tmp_path / "junk", tmp_path / "missing"
    junk.write_bytes(os.urandom(300))

    def wrong(certfile: Path | str, keyfile: Path | str) -> str:
        operator = OperatorCertificate(str(certfile), str(keyfile))
        with pytest.raises(CertificateError) as error:
            operator.ensure()
            server_context(operator)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "missing can't be read: No such file" in wrong(missing, one.key_file)
    assert "missing can't be read: No such file" in wrong(one.file, missing)
    assert "junk holds no certificate" in wrong(junk, one.key_file)
    assert "one.pem with" in wrong(one.file, junk)
    assert "two.key is not the key of" in wrong(one.file, two.key_file)
    assert "is encrypted" in wrong(locked.file, locked.key_file)
    assert "only one is set" in wrong(one.file, "")
    assert "only one is set" in wrong("", one.key_file)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "suzent_jupyter")
