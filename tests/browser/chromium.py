"""The distribution's Chromium, which opens the pages in tests and for the pictures of docs."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """Its path, or that in SLACKWATER_CHROMIUM; None where there is none."""
    paths = [os.environ.get("SLACKWATER_CHROMIUM"), *map(shutil.which, NAMES)]
    return next((path for path in paths if path), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """That Chromium. Playwright runs once at a time in a process."""
    with sync_playwright() as playwright:
        # Its sandbox does not start as root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()
