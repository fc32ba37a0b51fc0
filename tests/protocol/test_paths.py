"""Paths for another machine: separators change, everything else stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.paths import convert_path, local_path, separator_of

CASES = [
    # Windows paths for Linux: the drive letter stays
    (r"C:\Users\ada\data.csv", "linux", "C:/Users/ada/data.csv"),
    (r"c:\temp", "darwin", "c:/temp"),
    ("D:/already/so", "linux", "D:/already/so"),
    (r"C:\Program Files (x86)\Tool\run.exe", "linux", "C:/Program Files (x86)/Tool/run.exe"),
    (r"C:\data\päper ☃\文書.txt", "linux", "C:/data/päper ☃/文書.txt"),
    (r"C:\a/b\c", "linux", "C:/a/b/c"),
    ("C:\\", "linux", "C:/"),
    # and the other way
    ("C:/Users/ada/data.csv", "windows", r"C:\Users\ada\data.csv"),
    ("C:/a\\b/c", "win32", r"C:\a\b\c"),
    (r"C:\Users\ada", "windows", r"C:\Users\ada"),
    # shares
    (r"\\server\share\file.txt", "linux", "//server/share/file.txt"),
    ("//server/share/file.txt", "windows", r"\\server\share\file.txt"),
    (r"\\server\share\my file.txt", "macos", "//server/share/my file.txt"),
    # what Windows takes verbatim stays verbatim
    (r"\\?\C:\very\long", "linux", r"\\?\C:\very\long"),
    (r"\\?\C:\very/long", "windows", r"\\?\C:\very/long"),
    (r"\\?\UNC\server\share", "linux", r"\\?\UNC\server\share"),
    (r"\\.\COM1", "linux", r"\\.\COM1"),
    # home and here
    (r"~\data\x.csv", "linux", "~/data/x.csv"),
    ("~/data/x.csv", "windows", r"~\data\x.csv"),
    ("~ada/data/x.csv", "windows", r"~ada\data\x.csv"),
    (r".\x\y", "linux", "./x/y"),
    (r"..\..\x", "linux", "../../x"),
    ("../x/y", "windows", r"..\x\y"),
    # relative and absolute ones
    (r"data\raw\file.csv", "linux", "data/raw/file.csv"),
    ("data/raw/file.csv", "windows", r"data\raw\file.csv"),
    (r"data/raw\file.csv", "linux", "data/raw/file.csv"),
    (r"My Documents\Some File.txt", "linux", "My Documents/Some File.txt"),
    ("My Documents/Photos", "windows", r"My Documents\Photos"),
    ("/home/ada/data.csv", "windows", r"\home\ada\data.csv"),
    ("/home/ada/data.csv", "linux", "/home/ada/data.csv"),
    (r"\Users\ada\x.txt", "linux", "/Users/ada/x.txt"),
    (r"/home/ada\data\x.csv", "linux", "/home/ada/data/x.csv"),
    ("data/report (1).pdf", "windows", r"data\report (1).pdf"),
    (r"фото\лето.jpg", "android", "фото/лето.jpg"),
    ("写真/夏.jpg", "windows", "写真\\夏.jpg"),
    (r"a\b", "ios", "a/b"),
    ("name.txt", "windows", "name.txt"),
    ("", "linux", ""),
    # URLs
    ("https://example.org/a/b?c=d", "windows", "https://example.org/a/b?c=d"),
    ("file:///C:/Users/ada", "windows", "file:///C:/Users/ada"),
    ("s3://bucket/key", "windows", "s3://bucket/key"),
    ("data:text/plain;base64,AAAA/BB", "windows", "data:text/plain;base64,AAAA/BB"),
    ("urn:a/b", "windows", "urn:a/b"),
    # patterns
    (r"\d+\.csv", "linux", r"\d+\.csv"),
    (r"^\w+$", "linux", r"^\w+$"),
    (r".\d+", "linux", r".\d+"),
    (r"(a|b)\s*", "linux", r"(a|b)\s*"),
    (r"[a-z]+\d{2}", "linux", r"[a-z]+\d{2}"),
    (r"foo\.bar", "linux", r"foo\.bar"),
    (r"\bfoo\b", "linux", r"\bfoo\b"),
    ("data/*.csv", "windows", "data/*.csv"),
    (r"data\*.csv", "linux", r"data\*.csv"),
    ("/^foo/i", "windows", "/^foo/i"),
    # prose, escapes, TeX
    ("either/or and so on", "windows", "either/or and so on"),
    (r"Use C:\Windows for it", "linux", r"Use C:\Windows for it"),
    (r"a backslash \ is a sign", "linux", r"a backslash \ is a sign"),
    (r"write \n for a new line", "linux", r"write \n for a new line"),
    ("two\nlines\\here", "linux", "two\nlines\\here"),
    ("Read this. Or that/those.", "windows", "Read this. Or that/those."),
    (r"/home/ada/my\ file.txt", "linux", r"/home/ada/my\ file.txt"),
    (r"\alpha", "linux", r"\alpha"),
    (" C:\\x\\y", "linux", " C:\\x\\y"),
    # odd names after a prefix that leaves no doubt
    (r"C:\Users\ada\.ssh\config", "linux", "C:/Users/ada/.ssh/config"),
    (r"C:\$Recycle.Bin\x", "linux", "C:/$Recycle.Bin/x"),
    ("~/src/[draft] v1+2/{a}.txt", "windows", r"~\src\[draft] v1+2\{a}.txt"),
    (r"~\d+", "linux", r"~\d+"),
    # a platform nobody knows
    (r"C:\x\y", "toaster", r"C:\x\y"),
    (r"C:\x\y", "", r"C:\x\y"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "platform", "expected"), CASES)
def test_a_path_is_written_as_its_machine_does(text: str, platform: str, expected: str) -> None:
    assert convert_path(text, platform) == expected


def test_platforms_as_devices_name_themselves() -> None:
    assert [separator_of(name) for name in ("Windows", "win32", "Windows 11")] == ["\\"] * 3
    assert [separator_of(name) for name in ("Linux", "darwin", "macOS", "iOS", "Android")] == ["/"] * 5
    assert separator_of("browser") is separator_of("unknown") is None


@given(st.text(alphabet="aB1/\\ .:~?*^$d+[](){}é☃", max_size=24), st.sampled_from(["windows", "linux"]))
def test_only_separators_ever_change(text: str, platform: str) -> None:
    converted = convert_path(text, platform)
    assert converted.replace("\\", "/") == text.replace("\\", "/")
    assert convert_path(converted, platform) == converted


def test_a_very_long_text_is_left_alone_at_once() -> None:
    text = "a\\" * 500_000
    assert convert_path(text, "linux") is text


@pytest.mark.skipif(os.name != "posix", reason="a backslash may be part of a name here")
def test_a_file_of_this_machine_is_found_however_its_path_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "scan.tif").touch()
    assert local_path(r"data\scan.tif", Path.exists) == Path("data/scan.tif")
    assert local_path(r"~\data\scan.tif", Path.exists) == tmp_path / "data" / "scan.tif"
    assert local_path("data/scan.tif", Path.exists) == Path("data/scan.tif")
    (tmp_path / r"data\scan.tif").touch()  # a name of its own, and there
    assert local_path(r"data\scan.tif", Path.exists) == Path(r"data\scan.tif")
    assert local_path(r"no\such", Path.exists) == Path("no/such")
