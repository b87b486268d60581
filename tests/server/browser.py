"""A real browser for tests: Chromium, driven by Playwright, where both are there."""

from __future__ import annotations

import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LOOK_MS = 60_000  # a busy machine


@pytest.fixture
def page(tmp_path):
    """An empty page; what fails in its scripts fails the test."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        pytest.skip("there is no Chromium")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            tmp_path / "browser",
            executable_path=chromium,
            args=options,
            headless=True,
            ignore_https_errors=True,
        )
        opened = browser.pages[0]
        opened.problems, opened.complaints = [], []
        opened.on("pageerror", lambda error: opened.problems.append(str(error)))
        opened.on(
            "console", lambda said: said.type == "error" and opened.complaints.append(said.text)
        )
        opened.set_default_timeout(LOOK_MS)
        yield opened
        browser.close()
        assert opened.problems == []


def wait(page, expression, argument=None):
    """Until it holds; asked from outside, since the page lets nobody evaluate text in it."""
    for _ in range(LOOK_MS // 50):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(expression)


def state(page, expected):
    page.wait_for_selector(f'#connection[data-state="{expected}"]')
