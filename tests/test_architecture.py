"""Who may import whom, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_import_contracts_are_kept() -> None:
    script = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def loaded_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


HEAVY = {
    "tornado", "pandas", "numpy", "pydantic", "jupyter_server", "IPython", "ipykernel", "sqlalchemy", "websockets",
    "httpx", "matplotlib", "PIL", "jsonschema", "typer", "traitlets", "cryptography", "keyring", "asyncio", "yaml",
}  # fmt: skip


def test_importing_the_package_is_cheap() -> None:
    assert loaded_by("import suzent_jupyter") & HEAVY == set()


@pytest.mark.parametrize(
    ("module", "not_loaded"),
    [
        ("suzent_jupyter.protocol", {"tornado", "jupyter_server", "pandas", "sqlalchemy", "websockets", "httpx"}),
        ("suzent_jupyter.gateway", {"tornado", "jupyter_server", "pandas", "IPython", "websockets"}),
        ("suzent_jupyter.discovery", {"tornado", "jupyter_server", "pandas", "websockets", "zeroconf", "psutil"}),
        ("suzent_jupyter.server.listener.server", {"jupyter_server", "pandas", "IPython"}),
        ("suzent_jupyter.server.app", {"pandas", "matplotlib", "sqlalchemy"}),
    ],
)
def test_each_part_loads_only_what_it_needs(module: str, not_loaded: set[str]) -> None:
    assert loaded_by(f"import {module}") & not_loaded == set()
