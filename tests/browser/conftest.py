"""A real Chromium against real servers. Skipped where no Chromium is installed; CI installs it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package `chromium` to run the browser tests")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
                "--use-fake-device-for-media-stream",
                # A name of somebody else's that points at this machine: DNS rebinding.
                "--host-resolver-rules=MAP evil.example 127.0.0.1",
            ],
        )
        yield chromium
        chromium.close()
