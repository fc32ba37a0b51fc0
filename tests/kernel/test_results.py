"""Results: data, image, frame, files, and what is shown of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from suzent_jupyter.kernel import wire
from suzent_jupyter.kernel.errors import CapabilityFailed, ContentError
from suzent_jupyter.kernel.results import Binary, Result, safe_name

from .conftest import PNG

EVIL = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
RASTER = {"image/png", "image/jpeg", "image/gif", "image/webp"}


def result(value: Any, success: bool = True, error: Any = None) -> Result:
    frame = wire.read(json.dumps({"type": "result", "id": 1, "success": success, "result": value, "error": error}))
    return Result(frame, "MyPhone", "camera.snap", 0.25)


def blob(data: bytes, media_type: str, name: str | None = None) -> dict[str, str]:
    part = {"media_type": media_type, "base64": base64.b64encode(data).decode()}
    return {**part, "name": name} if name is not None else part


def bundle(value: Any) -> dict[str, Any]:
    shown = result(value)._repr_mimebundle_()
    assert set(shown) <= {"text/plain", "text/html", "application/json"} | RASTER
    assert not {"\x1b", "\u202e"} & set(shown["text/plain"])
    return shown


def test_a_photo() -> None:
    photo = result(blob(base64.b64decode(PNG), "image/png", "p.png"))
    assert isinstance(photo.data, Binary)
    assert photo.data.data.startswith(b"\x89PNG")
    assert photo.image.size == (1, 1)
    assert photo._repr_mimebundle_()["image/png"] == PNG
    assert photo.elapsed == pd.Timedelta(milliseconds=250)
    assert photo.success
    assert photo.error is None


def test_a_photo_among_facts_is_shown_with_them() -> None:
    shown = bundle({"photo": blob(base64.b64decode(PNG), "image/png"), "lens": "wide"})
    assert shown["image/png"] == PNG
    assert '"lens": "wide"' in shown["text/plain"]
    assert PNG not in shown["text/plain"]


@pytest.mark.parametrize("kind", ["image/svg+xml", "text/html", "application/javascript", "text/markdown", "image/png"])
def test_foreign_markup_is_never_shown(kind: str) -> None:
    shown = bundle(blob(b"<svg onload=alert(1)><script>alert(1)</script>", kind))
    assert set(shown) == {"text/plain"}
    assert "<svg" not in shown["text/plain"]


def test_a_claim_that_the_content_belies_is_not_shown() -> None:
    assert set(bundle(blob(base64.b64decode(PNG), "image/jpeg"))) == {"text/plain"}


def test_a_media_type_cannot_smuggle_markup() -> None:
    assert set(bundle(blob(base64.b64decode(PNG), 'image/png;"><script>'))) == {"text/plain", "image/png"}
    assert set(bundle(blob(b"RIFF....WAVEfmt ", 'audio/wav" onerror="x'))) == {"text/plain"}


def test_sound_gets_a_player_of_ours() -> None:
    shown = bundle(blob(b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/x-wav", EVIL))
    assert shown["text/html"].startswith('<audio controls src="data:audio/wav;base64,')
    assert "img" not in shown["text/html"]


def test_large_media_is_summarised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suzent_jupyter.kernel.show.MEDIA_BYTES", 10)
    assert "image/png" not in bundle(blob(base64.b64decode(PNG), "image/png"))


def test_text_and_json_are_cleaned() -> None:
    assert bundle(EVIL) == {"text/plain": "<img src=x onerror=alert(1)>"}
    shown = bundle({"a": [EVIL], EVIL: {"b": 1}})
    assert shown["application/json"]["a"] == ["<img src=x onerror=alert(1)>"]
    assert "text/html" not in shown


def test_a_table_is_escaped_and_not_typeset() -> None:
    shown = bundle([{"name": EVIL, EVIL: 1, "m": "$\\href{javascript:x}{y}$"}, {"name": "b", EVIL: 2, "m": ""}])
    assert "<img" not in shown["text/html"]
    assert "&lt;img" in shown["text/html"]
    assert "mathjax_ignore" in shown["text/html"]


def test_large_json_is_cut() -> None:
    shown = bundle({"rows": [["x" * 100] * 2] * 20_000})
    assert len(shown["text/plain"]) < 21_000
    assert "application/json" not in shown


def test_a_failure_shows_and_raises() -> None:
    failed = result(None, success=False, error=EVIL)
    assert not failed.success
    assert failed.error == "<img src=x onerror=alert(1)>"
    assert set(failed._repr_mimebundle_()) == {"text/plain"}
    for use in (lambda: failed.data, lambda: failed.image, lambda: failed.frame, lambda: failed.text, failed.save):
        with pytest.raises(CapabilityFailed, match="camera.snap failed on MyPhone"):
            use()
    assert "\x1b" not in repr(failed)


def test_frames_of_every_shape() -> None:
    records = [{"time": "2024-05-01T10:00:00Z", "v": 1}, {"time": "2024-05-01T10:00:01Z", "v": 2}]
    frame = result(records).frame
    assert str(frame.dtypes["time"]) == "datetime64[us, UTC]"
    assert frame["v"].tolist() == [1, 2]
    for other in (
        {"time": [row["time"] for row in records], "v": [1, 2]},
        {"columns": ["time", "v"], "data": [[row["time"], row["v"]] for row in records]},
        {"unit": "C", "samples": records},
    ):
        pd.testing.assert_frame_equal(result(other).frame, frame)
    epoch = result([{"t": 1714557600.5, "v": 1}]).frame
    assert epoch["t"][0] == pd.Timestamp("2024-05-01T10:00:00.5Z")
    assert result({"cpu": 5, "host": "a"}).frame["cpu"][0] == 5
    assert result([1, 2]).frame["value"].tolist() == [1, 2]
    assert result([{"id": "2024", "at": 7}]).frame["at"][0] == 7
    assert result([{"a": EVIL}]).frame["a"][0] == "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("value", [5, "text", {"a": {"b": {}}}, {"columns": ["a"], "data": [[1, 2]]}, None])
def test_what_is_no_table_says_so(value: Any) -> None:
    with pytest.raises(ContentError):
        _ = result(value).frame


def test_no_image_says_so() -> None:
    with pytest.raises(ContentError, match="no image"):
        _ = result({"a": 1}).image
    with pytest.raises(ContentError, match="can't be read"):
        _ = result(blob(b"\x89PNG\r\n\x1a\nbroken", "image/png")).image


def test_broken_base64_stays_what_it_was() -> None:
    assert result({"media_type": "a/b", "base64": "%%%"}).data == {"media_type": "a/b", "base64": "%%%"}


def test_saving_never_leaves_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    photo = result(blob(base64.b64decode(PNG), "image/png", "../../etc/cron.d/x.html"))
    path = photo.save()
    assert path.resolve() == tmp_path / "x.html.png"
    with pytest.raises(FileExistsError):
        photo.save()
    assert photo.save(overwrite=True) == path
    (tmp_path / "sub").mkdir()
    assert photo.save("sub").resolve().parent == tmp_path / "sub"
    assert photo.save(tmp_path / "own.dat").read_bytes().startswith(b"\x89PNG")
    assert json.loads(result({"a": 1}).save("data.json").read_text()) == {"a": 1}
    assert result([{"a": 1}]).save("t.csv").read_text() == "a\n1\n"
    assert result("hi").save().name == "camera.snap.txt"


NAMES = [
    "..", ".", "", "/", "\\", "..\\..\\x", "/etc/passwd", ".bashrc", "con", "NUL.png", "a\x00b", "x" * 500,
    "é" * 300, "-rf", "a\nb", "~", "$(x)", "\u202egnp.exe", "x:y", " . ",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_devices_are_tamed(name: str, tmp_path: Path) -> None:
    safe = safe_name(name, ".png")
    assert Path(safe).name == safe
    assert safe.endswith(".png")
    assert not safe.startswith((".", "-", "~"))
    assert len(safe.encode()) < 255
    assert safe.split(".")[0].casefold() not in ("con", "nul")
    (tmp_path / safe).write_bytes(b"")
