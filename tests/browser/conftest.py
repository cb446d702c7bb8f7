"""A browser, the built book served on this machine, and a page that notes every trouble."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, Playwright, sync_playwright

from repro import book
from repro.paths import ROOT

HTML = Path(os.environ.get("BOOK_HTML", book.HTML))  # the built pages may lie elsewhere

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install_chromium() -> str:
    """Debian's package where that may be installed, else Playwright's own; what went wrong."""
    said = ""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"],
        ):
            said = _attempt(command, **quiet)
    if not find_chromium():
        said = _attempt([sys.executable, "-m", "playwright", "install", "chromium"])
    return said


def _attempt(command: list[str], **options: object) -> str:
    """Run an installer; what it complained of in one line, "" when it went well."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within 300 s"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return (telling or lines or [f"{command[0]} exited with {done.returncode}"])[-1][:200]


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        said = "" if find_chromium() else install_chromium()
        try:
            opened = launch(playwright)
        except Error as error:
            reason = f"no Chromium could be started: {said or str(error)[:200]}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        yield opened
        opened.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Address of the built book; builds it first if it is not there."""
    if not (HTML / "index.html").is_file():
        subprocess.run([sys.executable, "-m", "repro.cli", "book"], cwd=ROOT, check=True)
    handler = functools.partial(Quiet, directory=str(HTML))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def visit(browser: Browser, site: str):
    """Open a page at a given width; returns it with the list of its troubles."""
    contexts = []

    def open_page(name: str, width: int = 1280, **how: str) -> tuple[Page, list[str]]:
        context = browser.new_context(viewport={"width": width, "height": 900}, **how)
        contexts.append(context)
        page, troubles = context.new_page(), []
        page.on("console", lambda m: m.type == "error" and troubles.append(f"console: {m.text}"))
        page.on("pageerror", lambda e: troubles.append(f"error: {e}"))
        page.on("requestfailed", lambda r: troubles.append(f"failed: {r.url}"))
        page.on("response", lambda r: r.status >= 400 and troubles.append(f"{r.status}: {r.url}"))
        page.on("request", lambda r: _foreign(r.url, site) and troubles.append(f"host: {r.url}"))
        page.goto(f"{site}/{name}", wait_until="networkidle")
        return page, troubles

    yield open_page
    for context in contexts:
        context.close()


def _foreign(url: str, site: str) -> bool:
    return not url.startswith((site, "data:", "blob:"))


def pages() -> list[str]:
    """The pages of the table of contents, as they lie under the built HTML."""
    import yaml

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    found: list[str] = [toc["root"]]

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if "file" in node:
                found.append(node["file"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(toc["parts"])
    return [f"{Path(name)}.html" for name in found]
