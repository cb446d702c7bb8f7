"""Build the book and look over what was built."""

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from repro import evidence
from repro.errors import ReproError
from repro.evidence import prose
from repro.paths import BUILD, ROOT

HTML = BUILD / "html"

# Jupyter Book without rfc3987_syntax: jsonschema takes it where it finds it, for a check of web
# addresses that nothing here asks for, and its 38 grammars take two seconds of every start.
_START = """
import sys
sys.modules["rfc3987_syntax"] = None
from jupyter_book.cli.main import main
main()
"""


def build(strict: bool = False) -> Path:
    """Build the HTML from what is on file, executing nothing; return the front page.

    strict: every page anew (an unchanged page is otherwise not read again, so that its warning
    would fail one build and pass the next), any warning an error, and `faults` must be empty.
    Raises ReproError naming what is wrong.
    """
    strictly = ["--all", "-W", "-n", "--keep-going"] if strict else []
    BUILD.mkdir(exist_ok=True)
    with FileLock(BUILD / "book.lock"):
        # Left behind by a build that was killed: what it wrote may be cut off, and looks new.
        unfinished = BUILD / "unfinished"
        anew = ["--all"] if unfinished.exists() and not strict else []
        unfinished.touch()
        done = _sphinx(strictly or anew)
        if done.returncode != 0 and not (strict or anew):
            done = _sphinx(["--all"])  # in case what is kept between builds is damaged
        unfinished.unlink()
        if done.returncode != 0:
            raise ReproError(f"The book was not built:\n{_tail(done.stdout + done.stderr)}")
        if strict and (found := faults()):
            raise ReproError("The book was built, but:\n" + "\n".join(f"- {f}" for f in found))
    return HTML / "index.html"


def _sphinx(options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _START, "build", str(ROOT), "-q", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=_environment())


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}


def _tail(text: str) -> str:
    telling = [line for line in text.splitlines() if "WARNING" in line or "ERROR" in line]
    return "\n".join(telling[-20:] or text.splitlines()[-20:])


def faults() -> list[str]:
    """Stale pages, links that lead nowhere, pictures without words, other hosts, wrong badges."""
    found = [f"{s.key} is {s.state}: {s.why}" for s in _live() if s.state == "stale"]
    found += prose.badges(HTML)
    pages = {path: Page(path) for path in sorted(HTML.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(HTML)
        found += [f"{name}: picture without alternative text: {src}" for src in page.mute]
        found += [f"{name}: loads {url}" for url in page.loads if urlsplit(url).netloc]
        found += [
            f"{name}: broken link {link}" for link in page.links if _broken(path, link, pages)
        ]
    return found


def _live() -> Iterator[evidence.Status]:
    return (s for s in evidence.statuses() if s.profile == "default")


def _broken(path: Path, link: str, pages: dict[Path, "Page"]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return True
    page = pages.get(target)
    return bool(parts.fragment and page and unquote(parts.fragment) not in page.anchors)


class Page(HTMLParser):
    """Links, anchors, loaded files, unexplained pictures and the next page of one HTML page."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.mute: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.next = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[n] for n in ("id", "name") if n in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") == "next":
            self.next = values["href"]
        if tag in ("img", "script", "iframe", "source") and "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(values["href"])
        if tag == "img" and not _says_something(values.get("alt", ""), values.get("src", "")):
            self.mute.append(values.get("src", ""))

    handle_startendtag = handle_starttag


def _says_something(alt: str, src: str) -> bool:
    """The default alternative text is the file's own (hashed) name, which says nothing."""
    return bool(alt.strip()) and Path(urlsplit(src).path).name not in alt
