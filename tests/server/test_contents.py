"""An agent's files, over real contents managers: what it may see, read and write, and what does not exist for it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from support.running import sync, until

from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.server.contents import check_path, file_access

SECRET = "the secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A server's files, with something secret beside and hidden in them."""
    root = tmp_path / "root"
    (root / "folder" / "deep").mkdir(parents=True)
    (root / ".ssh").mkdir()
    (root / ".ssh" / "id_rsa").write_text(SECRET)
    (root / ".env").write_text(SECRET)
    (root / "folder" / ".hidden").write_text(SECRET)
    (tmp_path / "outside.txt").write_text(SECRET)
    (root / "notes.txt").write_text("héllo\nworld\n")
    (root / "folder" / "more.md").write_text("# More")
    (root / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    (root / "nul.txt").write_bytes(b"text\0text")
    (root / "out.txt").symlink_to(tmp_path / "outside.txt")
    (root / "up").symlink_to(tmp_path)
    (root / "keys").symlink_to(root / ".ssh")
    (root / "inside.txt").symlink_to(root / "notes.txt")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title"),
            nbformat.v4.new_code_cell(
                "1 + 1", outputs=[nbformat.v4.new_output("stream", name="stdout", text="an output")]
            ),
        ]
    )
    nbformat.write(notebook, root / "book.ipynb")
    return root


@pytest.fixture(params=[LargeFileManager, AsyncLargeFileManager])
def manager(request: pytest.FixtureRequest, root: Path) -> Any:
    return request.param(root_dir=str(root))


def files(manager: Any, **limits: Any) -> Any:
    return file_access(manager, Limits(**limits))


async def refused(work: Any) -> SuzentError:
    with pytest.raises(SuzentError) as caught:
        await work
    message = caught.value.message + caught.value.hint
    assert SECRET not in message and "not found" not in message.lower() and "/tmp" not in message
    return caught.value


HOSTILE = [
    "..", "../outside.txt", "folder/../../outside.txt", "folder/..", "/etc/passwd", "//etc/passwd", "/notes.txt", "~",
    "~/notes.txt", "~root/x", "C:/Windows/win.ini", "c:notes.txt", "folder/C:/x", "..\\outside.txt", "folder\\more.md",
    "\\\\host\\share", "%2e%2e/outside.txt", "..%2foutside.txt", "%252e%252e%252foutside.txt", "%2Fetc%2Fpasswd",
    "folder/%2e%2e/%2e%2e/outside.txt", "%5c..%5coutside.txt", "%00", "notes.txt\0", "notes.txt\0.png",
    "notes.txt%00.md", "notes\n.txt", ".ssh", ".ssh/id_rsa", "%2essh/id_rsa", ".env", "./.env", "folder/.hidden",
    "folder/ .hidden", "folder//.hidden", "folder/./.hidden", "out.txt", "up", "up/outside.txt", "keys", "keys/id_rsa",
    "notes.txt::$DATA", "a" * 5000, "\ud800", "...", "folder/..;/x", ".ssh%2fid_rsa", "%252essh",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE, ids=[ascii(path)[:40] for path in HOSTILE])
@sync
async def test_what_is_hidden_or_outside_does_not_exist(manager: Any, root: Path, path: str) -> None:
    access = files(manager)
    before = sorted(str(each) for each in root.parent.rglob("*"))
    for work in (access.list(path), access.read(path, 0, 1000), access.write(path, "mine")):
        assert (await refused(work)).code == "file_unknown"
    assert sorted(str(each) for each in root.parent.rglob("*")) == before
    assert (root.parent / "outside.txt").read_text() == SECRET and (root / ".env").read_text() == SECRET


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("", ""),
        (".", ""),
        ("a//b/", "a/b"),
        ("./a/./b", "a/b"),
        ("50%.txt", "50%.txt"),
        ("10:30", "10:30"),
        ("é ü", "é ü"),
    ],
)
def test_harmless_paths(path: str, same: str) -> None:
    assert check_path(path) == same


@sync
async def test_a_directory(manager: Any) -> None:
    listed = {entry["name"]: entry for entry in await files(manager).list("")}
    assert set(listed) >= {"folder", "notes.txt", "photo.png", "book.ipynb", "inside.txt"}
    assert not set(listed) & {".ssh", ".env", "out.txt", "up", "keys", "loop"}
    assert listed["folder"]["type"] == "directory" and listed["notes.txt"]["size"] == 13
    assert listed["notes.txt"]["modified"].startswith("20")
    assert [entry["path"] for entry in await files(manager).list("folder/")] == ["folder/deep", "folder/more.md"]


@sync
async def test_a_text_file_in_parts(manager: Any) -> None:
    access = files(manager)
    whole = await access.read("notes.txt", 0, 1000)
    assert whole == {"path": "notes.txt", "content": "héllo\nworld\n", "size": 13, "offset": 0, "next_offset": None}
    text, offset = "", 0
    for length in (4, 5, 4):
        part = await access.read("notes.txt", offset, length)
        text, offset = text + part["content"], part["next_offset"]
    assert text == "héllo\nworld\n" and offset is None
    assert (await access.read("notes.txt", 2, 100))["offset"] == 3  # the middle of a character
    assert (await access.read("notes.txt", 99, 100))["content"] == ""
    assert (await access.read("inside.txt", 0, 100))["content"] == whole["content"]


@sync
async def test_a_notebook_is_its_cells(manager: Any) -> None:
    text = (await files(manager).read("book.ipynb", 0, 1000))["content"]
    assert text == "# %% [markdown] 1\n# Title\n\n# %% [code] 2\n1 + 1\n"


@pytest.mark.parametrize(
    ("path", "words"), [("photo.png", "image/png"), ("nul.txt", "text/plain"), ("folder", "directory")]
)
@sync
async def test_what_is_no_text_is_described(manager: Any, path: str, words: str) -> None:
    error = await refused(files(manager).read(path, 0, 1000))
    assert error.code == "invalid_request" and words in error.message


@sync
async def test_a_file_that_is_too_large(manager: Any) -> None:
    assert (await refused(files(manager, frame_bytes=10).read("notes.txt", 0, 1000))).code == "too_large"


@sync
async def test_a_pipe_is_no_file(manager: Any) -> None:
    assert "pipe" not in {entry["name"] for entry in await files(manager).list("")}
    await refused(files(manager).read("pipe", 0, 1000))


@sync
async def test_writing(manager: Any, root: Path) -> None:
    access = files(manager)
    assert await access.write("folder/new.txt", "héllo") == {"path": "folder/new.txt", "size": 6}
    assert (root / "folder" / "new.txt").read_text() == "héllo"
    await access.write("folder/new.txt", "again")
    assert (root / "folder" / "new.txt").read_text() == "again"


@pytest.mark.parametrize("path", ["folder", "", "none/new.txt", "notes.txt/new.txt", "book.ipynb", "NEW.IPYNB"])
@sync
async def test_what_can_not_be_written(manager: Any, root: Path, path: str) -> None:
    before = (root / "book.ipynb").read_text()
    assert (await refused(files(manager).write(path, "x"))).code in ("invalid_request", "file_unknown")
    assert (root / "book.ipynb").read_text() == before and (root / "folder").is_dir()


@sync
async def test_what_the_server_may_not_read(manager: Any, root: Path) -> None:
    (root / "notes.txt").chmod(0)
    if os.access(root / "notes.txt", os.R_OK):
        pytest.skip("this user may read anything")
    assert (await refused(files(manager).read("notes.txt", 0, 100))).code == "forbidden"


@sync
async def test_a_sync_manager_waits_for_the_disk_in_a_thread_and_tells_its_events_on_the_loop(root: Path) -> None:
    here = threading.get_ident()
    read_in: list[int] = []
    told_in: list[int] = []

    class Slow(LargeFileManager):
        def get(self, *arguments: Any, **options: Any) -> Any:
            read_in.append(threading.get_ident())
            return super().get(*arguments, **options)

    manager = Slow(root_dir=str(root))

    async def hear(**facts: Any) -> None:
        told_in.append(threading.get_ident())

    manager.event_logger.add_listener(schema_id=manager.event_schema_id, listener=hear)
    assert (await files(manager).read("notes.txt", 0, 100))["size"] == 13
    await until(lambda: told_in)
    assert here not in read_in and set(told_in) == {here}


@sync
async def test_directories_that_hold_tokens_do_not_exist(
    manager: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, variable in [
        ("run", "JUPYTER_RUNTIME_DIR"),
        ("data", "JUPYTER_DATA_DIR"),
        ("conf", "JUPYTER_CONFIG_DIR"),
    ]:
        monkeypatch.setenv(variable, str(root / name))
    for name in ("run", "data", "conf", "gateway"):
        (root / name).mkdir()
        (root / name / "suzent.json").write_text(SECRET)
    access = file_access(manager, Limits(), root / "gateway")
    assert access is not None
    assert not {entry["name"] for entry in await access.list("")} & {"run", "data", "conf", "gateway"}
    for name in ("run", "data", "conf", "gateway"):
        assert (await refused(access.list(name))).code == "file_unknown"
        assert (await refused(access.read(f"{name}/suzent.json", 0, 100))).code == "file_unknown"
        assert (await refused(access.write(f"{name}/new.json", "x"))).code == "file_unknown"
    assert (await access.read("notes.txt", 0, 100))["size"] == 13


def test_alone_there_are_no_files() -> None:
    assert file_access(None, Limits()) is None


def test_everything_can_be_written_as_json(root: Path) -> None:
    @sync
    async def work() -> None:
        access = files(AsyncLargeFileManager(root_dir=str(root)))
        json.dumps(await access.list(""))
        json.dumps(await access.read("book.ipynb", 0, 10))

    work()
