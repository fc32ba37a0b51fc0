"""Names and kinds of foreign files are made harmless, and sound ones left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.files import (
    OCTETS,
    attachment_header,
    clean_file_name,
    named_in,
    photo_type,
    safe_media_type,
)


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("photo.png", "photo.png"),
        ("Zoë's notes (2).txt", "Zoë's notes (2).txt"),
        ("数据.csv", "数据.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system32\\a.dll", "a.dll"),
        ("..", "file"),
        ("/", "file"),
        ("", "file"),
        (None, "file"),
        (7, "file"),
        (" . .bashrc. ", "bashrc"),
        ("a\0b\r\nc\x1b[31m.txt", "ab c.txt"),
        ("gpj.\u202eexe", "gpj.exe"),
        ('a:b|c?d*e"f<g>.txt', "a_b_c_d_e_f_g_.txt"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("console.txt", "console.txt"),
        (f"{'é' * 99}a bcdef", f"{'é' * 99}a"),  # cut at the blank
    ],
)
def test_names(name: object, clean: str) -> None:
    assert clean_file_name(name) == clean


@given(st.text() | st.text().map(lambda text: text + "." + text))
def test_any_name_can_be_a_file(name: str) -> None:
    clean = clean_file_name(name)
    assert 0 < len(clean.encode()) <= 200
    assert clean not in (".", "..")
    assert not set(clean) & set('/\\\0<>:"|?*\n')
    assert clean_file_name(clean) == clean


@given(st.text(min_size=1))
def test_a_name_survives_its_header(name: str) -> None:
    clean = clean_file_name(name)
    header = attachment_header(clean)
    assert header.isascii()
    assert header.isprintable()
    assert named_in(header) == clean


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("", ""),
        ("inline", ""),
        ("attachment; filename=a.txt", "a.txt"),
        ('attachment; filename="../a b.txt"; size=3', "a b.txt"),
        ("attachment; FILENAME*=utf-8'en'%e2%82%ac.txt; filename=x", "€.txt"),
        ("attachment; filename*=UTF-8''..%2F..%2Fx", "x"),
        ("attachment; filename*=UTF-8''%ff", "\ufffd"),
    ],
)
def test_names_in_headers_of_others(header: str, name: str) -> None:
    assert named_in(header) == name


@pytest.mark.parametrize(
    "kind", ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "text/javascript", "x", "", None, 5]
    + ["multipart/x-mixed-replace", "text/plain\r\nX: y", "text/html/plain", "text/css", "message/rfc822"],
)  # fmt: skip
def test_what_a_browser_runs_is_bytes(kind: object) -> None:
    assert safe_media_type(kind) == OCTETS


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "audio/mpeg", "video/mp4", "application/pdf", "text/csv"])
def test_what_is_only_shown_stays(kind: str) -> None:
    assert safe_media_type(f"{kind.upper()}; charset=x") == kind


def test_photos_by_their_first_bytes() -> None:
    assert photo_type(b"\x89PNG\r\n\x1a\nIHDR") == "image/png"
    assert photo_type(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert photo_type(b"GIF89a") is None
    assert photo_type(b"") is None
