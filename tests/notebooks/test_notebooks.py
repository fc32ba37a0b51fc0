"""The user guide runs top to bottom: by nbval, and by nbclient, since nbval passes cells whose magic is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from suzent_jupyter.cli.demo.run import find_notebooks, started

GUIDE = sorted(path.name for path in find_notebooks().glob("*.ipynb"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", GUIDE)
def test_a_notebook_runs(tmp_path: Path, name: str) -> None:
    with started(tmp_path, port=0) as demo:
        url, token = demo.runtime["url"], demo.runtime["token"]
        environment = {**os.environ, "SUZENT_BASE_URL": url.replace("://", f"://suzent:{token}@", 1)}
        path = demo.notebook.parent / name
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=120, resources=resources).execute(env=environment)
        saved = nbformat.writes(notebook)
        assert token not in saved
        assert re.findall(r"szt_[\w-]{8,}", saved) == []  # hints are shorter
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider", "-c", os.devnull, name],
            cwd=path.parent, env=environment, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("name", GUIDE)
def test_a_notebook_is_saved_without_outputs(name: str) -> None:
    notebook = nbformat.read(find_notebooks() / name, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
