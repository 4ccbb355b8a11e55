"""Pages in a real headless Chromium, driven by Playwright as a person would."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

OUTLINE = """() => ({
  width: document.documentElement.scrollWidth,
  sections: [...document.querySelectorAll("h2")].map((h) => h.innerText),
  right: Math.max(...[...document.querySelectorAll(".card, h1, h2, p, td, nav a")]
    .map((element) => element.getBoundingClientRect().right)),
})"""


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, width: int = 1280, height: int = 900) -> Iterator[Any]:
    """Open a page in a window of this size; check afterwards that its console has no errors."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(60_000)
    errors: list[str] = []
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else 0
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.errors = errors
    yield page
    page.close()


def see_all(page: Any) -> int:
    """Make the window as high as the page, so that all charts are drawn; return their number."""
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    wait_until(page, "all('.plot').every((box) => box.querySelector('canvas, .intervals'))")
    return page.locator(".plot").count()


def wait_until(page: Any, condition: str, seconds: float = 60.0) -> None:
    """Wait for a condition. The page's security policy forbids Playwright's own wait."""
    script = (
        f"(() => {{ const all = (s) => [...document.querySelectorAll(s)]; return {condition}; }})()"
    )
    end = time.monotonic() + seconds
    while not page.evaluate(script):
        assert time.monotonic() < end, f"the page never came to: {condition}"
        page.wait_for_timeout(100)


def tips(page: Any) -> list[str]:
    """Return each chart's tooltip for a pointer in its middle."""
    said = []
    for over in page.locator(".u-over").all():
        over.scroll_into_view_if_needed()
        page.wait_for_timeout(50)  # scrolling hides the previous tooltip
        over.hover()
        said.append(page.locator("#tip").inner_text() if page.locator("#tip").is_visible() else "")
    return said
