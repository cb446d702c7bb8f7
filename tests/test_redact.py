"""Nothing hostile and nothing of this machine reaches a page."""

import getpass
import json
import socket
from pathlib import Path

import pytest
from project import notebook

from repro import redact, sanitize, store
from repro.paths import ROOT


def cleaned(data: dict, metadata: dict | None = None) -> dict:
    nb = notebook("1")
    nb["cells"][1]["outputs"] = [
        {"output_type": "display_data", "data": data, "metadata": metadata or {}}
    ]
    return redact.notebook(nb)["cells"][1]["outputs"][0]


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<b onclick='alert(1)'>b</b>",
        "<a href='javascript:alert(1)'>x</a>",
        "<iframe src='https://example.org'></iframe>",
        "<svg><script>alert(1)</script></svg>",
        "<style>@import url(https://example.org/x.css)</style>",
        "<object data='x'></object>",
    ],
)
@pytest.mark.parametrize("mime", ["text/html", "text/markdown", "image/svg+xml"])
def test_hostile_markup_is_neutralised(html, mime):  # row 19
    shown = cleaned({mime: html, "text/plain": "x"})["data"].get(mime, "")
    low = shown.lower()
    for bad in (
        "<script",
        "<img",
        "onclick",
        "<iframe",
        "<style",
        "<object",
        "<svg",
        "javascript:",
    ):
        assert bad not in low


@pytest.mark.parametrize("mime", ["application/javascript", "application/vnd.bokehjs+json"])
def test_unlisted_types_are_replaced_by_words(mime):
    assert cleaned({mime: "alert(1)"})["data"] == {
        "text/plain": "[an output of a type that this book does not show]"
    }


def test_hostile_markdown_directive_is_not_executed():
    hostile = "```{include} /etc/passwd\n```\n"
    assert "text/markdown" not in cleaned({"text/markdown": hostile, "text/plain": "x"})["data"]


def test_harmless_markup_stays():
    table = '<table class="eb-table"><tbody><tr class="green"><td>ok</td></tr></tbody></table>'
    assert cleaned({"text/html": table})["data"]["text/html"] == table
    text = "The share is **0.5** and $a < b$, see `x`.\n\n```python\na[0](b) < {c}\n```"
    assert cleaned({"text/markdown": text})["data"]["text/markdown"] == text


def test_matplotlib_svg_passes_with_its_alternative_text():
    import io

    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().imshow([[0, 1], [1, 0]])
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    output = cleaned(
        {"image/svg+xml": buffer.getvalue()}, {"image/svg+xml": {"alt": "a small chessboard"}}
    )
    assert output["data"]["image/svg+xml"].count("<svg") == 1
    assert output["metadata"] == {"image/svg+xml": {"alt": "a small chessboard"}}


@pytest.mark.parametrize("kind", ["stream", "error", "text/plain", "text/html", "text/markdown"])
def test_paths_and_names_of_this_machine_are_replaced(kind):  # row 20
    said = f"{ROOT}/repro/x.py {Path.home()}/.cache/y /usr/lib/x/z.py C:\\ProgramData\\a\\b"
    nb = notebook("1")
    nb["metadata"]["papermill"] = {"input_path": str(ROOT / "notebooks"), "parameters": {"a": 1}}
    if kind == "stream":
        output = {"output_type": "stream", "name": "stderr", "text": [said]}
    elif kind == "error":
        output = {"output_type": "error", "ename": "E", "evalue": said, "traceback": [said]}
    else:
        output = {"output_type": "display_data", "data": {kind: said}, "metadata": {}}
    nb["cells"][1]["outputs"] = [output]
    text = json.dumps(redact.notebook(nb))
    assert "papermill" not in text
    for bad in (str(ROOT), str(Path.home()) + "/", "/usr/lib", "C:\\\\ProgramData"):
        assert bad not in text
    assert "z.py" in text


def test_host_and_account_are_replaced(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box-7")
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert redact.text("ada@gpu-box-7 adagio") == "[user]@[host] adagio"


def test_links_and_fractions_are_no_paths():
    said = "see https://arxiv.org/abs/2609.31395, 3/4 of tokens, a/b, <b>x</b></td>"
    assert redact.text(said) == said


def test_seal_breaks_when_an_output_is_edited(tmp_path):
    nb = notebook("1")
    nb["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "0.51"}]
    text = json.dumps(redact.notebook(nb))
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert store.load_executed(path) is not None
    path.write_text(text.replace("0.51", "0.91"))
    assert store.load_executed(path) is None
    path.write_text(text[: len(text) // 2])
    assert store.load_executed(path) is None


@pytest.mark.parametrize(
    "hostile",
    [
        "> ```{include} ../../x\n> ```",
        "{download}`../../x`",
        "[l](../../etc/hostname)",
        "![x](https://evil.example/x.png)",
        "- ```{figure} https://evil.example/x.png\n  ```",
        "</div></div></main>",
        "(evidence-labels)=\n# Stolen",
        "---\nmyst:\n---\nfront",
        "[l]: ../../x",
        "$\\href{javascript:alert(1)}{x}$",
        "$\\class{eb-level reproduction}{x}$",
        "<https://evil.example/>",
        "````\n```python\n````\n{download}`x`\n```",
        "   ```\n```python\n   ```\n{download}`x`\n```",
    ],
)
def test_markdown_that_does_more_than_set_text_becomes_plain(hostile):
    data = cleaned({"text/markdown": hostile, "text/plain": "<Markdown>"})["data"]
    assert "text/markdown" not in data and data["text/plain"]


def test_latex_may_not_run_or_style():
    assert "text/latex" not in cleaned({"text/latex": "\\href{javascript:alert(1)}{x}"})["data"]
    assert (
        cleaned({"text/latex": "$P:\\alpha\\beta x$"})["data"]["text/latex"]
        == "$P:\\alpha\\beta x$"
    )


def test_only_a_record_may_wear_evidence_classes():
    forged = '<div class="eb-banner fresh x">F</div><b class="eb-kept">k</b>'
    shown = cleaned({"text/html": forged})["data"]["text/html"]
    assert shown == '<div class="fresh x">F</div><b class="eb-kept">k</b>'


@pytest.mark.parametrize(
    "svg",
    [
        '<svg><s:script xmlns:s="x">1</s:script></svg>',
        '<!DOCTYPE svg [<!ENTITY x "&#60;script">]><svg>&x;</svg>',
        '<svg><image href="https://evil.example/x.png"/></svg>',
    ],
)
def test_hostile_pictures_are_refused(svg):
    assert "image/svg+xml" not in cleaned({"image/svg+xml": svg})["data"]


def test_a_picture_inside_a_picture_stays_whole():
    inside = "data:image/png;base64,iVBORw0KGgo\n/ab/cd/ef+Gh/srv/s/a=="
    path = "/".join(["", "srv", "s", "a.py"])
    shown = redact._svg(f'<svg><image href="{inside}"/><text>{path}</text></svg>')
    assert inside in shown and path not in shown and "…/a.py" in shown


@pytest.mark.parametrize(
    "said",
    ["\x1b[32m/srv/s/a.py", "file:///srv/s/a", "A=/a/b:/srv/s/a", "<//srv/s/a>", "x:/srv/s/a"],
)
def test_paths_in_other_dress_are_replaced(said):
    assert "/srv" not in redact.text(said) and "\x1b" not in redact.text(said)
    assert [f.pointer for f in sanitize.scan({"a": [said]})][0] == "/a/0"


def test_structured_output_is_left_out_and_breaks_nothing():
    assert "text/plain" in cleaned({"application/json": [{"a": 1}]})["data"]
