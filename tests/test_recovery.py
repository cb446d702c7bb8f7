"""Broken on purpose, from outside: each fault is named, nothing on file is lost, the next recovers.

Beside these, `test_runs.py` kills kernels, workers and runners, `test_assets.py` and
`test_models.py` damage every cached file, and `test_redact.py` feeds hostile outputs one by one.
"""

import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from html.parser import HTMLParser

import pytest
from project import CHECK, Project

from repro import assets, files
from repro.errors import MissingAsset
from repro.paths import ROOT

HOSTILE = """
from IPython.display import HTML, SVG, Markdown, display
display(HTML('<b>kept</b><script>alert(1)</script><img src="x" onerror="alert(2)">'))
display(HTML('<a href="javascript:alert(3)">link</a><iframe src="//example.org"></iframe>'))
display(Markdown('<script>alert(4)</script>\\n\\n```{raw} html\\n<script>alert(5)</script>\\n```'))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(6)</script></svg>'))
print('<script>alert(7)</script>')
"""


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def small_book(project) -> Project:
    """A book of a front page and one notebook."""
    (project.folder / "book").mkdir()
    shutil.copytree(ROOT / "book/_static", project.folder / "book/_static")
    shutil.copy(ROOT / "book/references.bib", project.folder / "book")
    shutil.copy(ROOT / "_config.yml", project.folder)
    (project.folder / "book/index.md").write_text("# Front\n\n[Demo](../notebooks/demo/page)\n")
    toc = "format: jb-book\nroot: book/index\nchapters:\n  - file: notebooks/demo/page\n"
    (project.folder / "_toc.yml").write_text(toc)
    project.write("page", "print('the value is', 7)", CHECK)
    return project


def shown(project: Project) -> str:
    return (project.folder / "_build/html/notebooks/demo/page.html").read_text()


# A full disk, a lost mirror, a broken download ---------------------------------------------------


def test_a_disk_that_is_really_full_costs_no_earlier_result(project):
    build = project.folder / "_build"
    build.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(build)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        project.write("good", CHECK)
        assert project.repro("run", "demo/good")[0] == 0
        (kept,) = project.results()
        content = kept.read_bytes()
        filler = build / "filler"
        with pytest.raises(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        code, said = project.repro("run", "demo/good", "--force")
        assert code == 1 and "No space left on device" in said and "Traceback" not in said
        assert project.results() == [kept] and kept.read_bytes() == content
        filler.unlink()
        assert project.repro("run", "demo/good", "--force")[0] == 0
    finally:
        subprocess.run(["umount", str(build)], check=True)


class Half(http.server.BaseHTTPRequestHandler):
    """Promises the whole content and hangs up after `sent` bytes."""

    sent, content = 0, b"the pinned bytes\n" * 4000

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content[: self.sent])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Half) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def toy(monkeypatch, tmp_path, *names: str) -> assets.Asset:
    sha = files.hashlib.sha256(Half.content).hexdigest()
    made = assets.Asset(
        "toy", "small files", "files", "MIT", 68_000, dict.fromkeys(names, sha),
        repository="owner/name", commit="c" * 40, folder="data",
    )  # fmt: skip
    monkeypatch.setitem(assets.ASSETS, "toy", made)
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REPRO_MIRROR", raising=False)
    return made


def test_a_download_that_breaks_off_leaves_nothing_and_the_next_one_works(
    tmp_path, monkeypatch, server
):
    toy(monkeypatch, tmp_path, "a.bin")
    monkeypatch.setattr(assets, "url", lambda asset, file: f"{server}/{file}")
    monkeypatch.setattr(Half, "sent", 5000)
    with pytest.raises(MissingAsset, match="its download from owner/name failed"):
        assets.fetch("toy")
    assert not [p for p in (tmp_path / "cache/assets").rglob("*") if p.is_file()]
    monkeypatch.setattr(Half, "sent", len(Half.content))
    assets.fetch("toy")
    assert (tmp_path / "cache/assets/toy/a.bin").read_bytes() == Half.content


def test_a_mirror_that_disappears_half_way_is_said_and_what_came_is_kept(tmp_path, monkeypatch):
    toy(monkeypatch, tmp_path, "a.bin", "b.bin")
    mirror = tmp_path / "mirror/toy"
    mirror.mkdir(parents=True)
    (mirror / "a.bin").write_bytes(Half.content)
    monkeypatch.setenv("REPRO_MIRROR", str(mirror.parent))
    with pytest.raises(MissingAsset, match="mirror's toy/b.bin is absent"):
        assets.path("toy")
    kept = tmp_path / "cache/assets/toy/a.bin"
    assert kept.read_bytes() == Half.content
    shutil.rmtree(mirror.parent)
    with pytest.raises(MissingAsset, match="Fetch it with `repro fetch toy`"):
        assets.path("toy")
    mirror.mkdir(parents=True)
    (mirror / "b.bin").write_bytes(Half.content)
    assert assets.path("toy") == kept.parent


# Parameters, clocks, records ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    ["'; import os\n#", '"""\nraise SystemExit\n"""', "../../etc/passwd", "{{ x }} \\N{BEL} %s",
     "\x1b[31mred\u202e", "x" * 100_000],
    ids=["quote", "block", "path", "braces", "control", "huge"],
)  # fmt: skip
def test_hostile_text_arrives_as_text(project, word):
    seen = project.folder / "seen.json"
    project.write("text", f"import json; open({str(seen)!r}, 'w').write(json.dumps(word))", CHECK)
    code, said = project.repro("run", "demo/text", "-p", "word", word)
    assert code == 0 and json.loads(seen.read_text()) == word, said[-500:]


@pytest.mark.parametrize(
    "arguments",
    [("../demo/good",), ("demo/good\n",), ("demo/good", "--profile", "../profiles/cpu"),
     ("demo/good", "--seeds", "1" * 5000), ("demo/good", "--seeds", "../1"),
     ("demo/good", "-p", "word\n", "x"), ("demo/good", "-p", "seed", "9" * 5000)],
)  # fmt: skip
def test_hostile_names_and_numbers_are_one_paragraph(project, arguments):
    project.write("good", CHECK)
    code, said = project.repro("run", *arguments)
    assert code == 2 and "Traceback" not in said and len(said) < 12_000, said[-500:]
    assert project.results() == []


@pytest.mark.parametrize("year", [1971, 2099])
def test_a_wrong_clock_changes_nothing(project, year):
    project.write("good", CHECK)
    assert project.repro("run", "demo/good")[0] == 0
    when = (year - 1970) * 365 * 86400
    for path in project.folder.rglob("*"):
        os.utime(path, (when, when))
    assert project.states() == {"demo/good": "fresh"}
    assert "fresh, nothing to do" in project.repro("run", "demo/good")[1]


def test_a_truncated_record_is_named_and_made_again(project):
    (project.folder / "profiles/small.yml").write_text("summary: s\nseeds: [42]\nnotebooks: {}\n")
    project.write("good", CHECK)
    assert project.repro("run", "demo/good", "--profile", "small")[0] == 0
    record = project.folder / "evidence/records/demo/good/small/seed-42.json"
    whole = json.loads(record.read_text())
    record.write_bytes(record.read_bytes()[:200])
    code, said = project.repro("status")
    assert code == 0 and "demo/good" in said and "Traceback" not in said
    assert "fresh" not in next(line for line in said.splitlines() if "small" in line)
    code, said = project.repro("run", "demo/good", "--profile", "small")
    again = json.loads(record.read_text())
    assert code == 0 and again["digest"] == whole["digest"], said


# The built book ----------------------------------------------------------------------------------


class Acts(HTMLParser):
    """What HOSTILE would do from the elements of a page, and the page's texts."""

    def __init__(self):
        super().__init__()
        self.found, self.texts, self.inside = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        acts = [f"{name}={value}" for name, value in attrs if "alert(" in (value or "")]
        self.found += acts + [tag] * (tag == "iframe")

    def handle_data(self, data):
        if self.inside == "script" and "alert(" in data:
            self.found.append(data)
        self.texts.append(data)


def test_hostile_outputs_do_nothing_in_the_page(small_book):
    small_book.write("page", HOSTILE, CHECK)
    code, said = small_book.repro("book")
    assert code == 0, said
    page = Acts()
    page.feed(shown(small_book))
    assert "<b>kept</b>" in shown(small_book) and page.found == []
    assert "<script>alert(7)</script>" in "".join(page.texts)  # printed, as text


def test_two_builds_at_once_execute_once_and_both_end_well(small_book):
    counted = small_book.folder / "counted"
    small_book.write("page", f"open({str(counted)!r}, 'a').write('x')", CHECK)
    both = [small_book.start("book") for _ in range(2)]
    for process in both:
        said, _ = process.communicate(timeout=180)
        assert process.returncode == 0, said
    assert counted.read_text() == "x" and "eb-banner fresh" in shown(small_book)


def damage_environment(build):
    (build / ".doctrees/environment.pickle").write_bytes(b"no pickle")


def damage_page(build):
    (build / ".doctrees/notebooks/demo/page.doctree").write_bytes(b"no pickle")


def damage_executed(build):
    (copy,) = (build / "executed/demo/page").glob("*.ipynb")
    copy.write_bytes(copy.read_bytes()[:300])


def test_every_damaged_part_of_the_build_is_made_again(small_book):
    assert small_book.repro("book")[0] == 0
    build = small_book.folder / "_build"
    for damage in (damage_environment, damage_page, damage_executed):
        damage(build)
        code, said = small_book.repro("book")
        assert code == 0 and "the value is 7" in shown(small_book), (damage.__name__, said)


def test_a_build_that_was_killed_is_no_obstacle(small_book):
    process = small_book.start("book")
    deadline = time.monotonic() + 120
    html = small_book.folder / "_build/html/notebooks/demo/page.html"
    while not html.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    family = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    for pid in [process.pid, *map(int, family)]:
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    html.write_bytes(html.read_bytes()[:100])  # as a write that broke off
    code, said = small_book.repro("book")
    assert code == 0 and "the value is 7" in shown(small_book), said
