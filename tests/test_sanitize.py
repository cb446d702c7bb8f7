"""Nothing secret and nothing of one machine is committed, and the scanner never repeats it."""

import base64
import copy
import html
import io
import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from repro import sanitize
from repro.errors import ReproError
from repro.paths import BUILD, EVIDENCE, NOTEBOOKS
from repro.sanitize import RECORD_HASHES, Finding, require_clean, scan, scan_notebook

# In pieces, so that this file holds none. Each row is found by one rule only, see the last test.
SECRETS = [
    ("absolute_path", "/" + "data/someone/x.py"),
    ("absolute_path", "/" + "root"),
    ("windows_path", "C:" + "\\Users\\someone\\x.py"),
    ("windows_path", "C:" + "/Program/x"),
    ("windows_path", "D:" + "\\secrets.txt"),
    ("unc_path", "\\\\" + "fileserver\\share"),
    ("home_path", "~" + "/secrets"),
    ("home_path", "~" + "someone/secrets"),
    ("file_url", "file:" + "/x"),
    ("file_url", "git" + "@server:team/project"),
    ("url_userinfo", "https://someone:" + "pass!" + "@github.com/x"),
    ("url", "https://" + "tracker.example/run/7"),
    ("url", "http://" + "localhost:8888"),
    ("ipv4", "10." + "1.2.3"),
    ("ipv4", "127." + "0.0.1"),
    ("ipv6", "2001:" + "0db8:85a3:0000:0000:8a2e:0370:7334"),
    ("ipv6", "fe80:" + ":1ff"),
    ("ipv6", "2001:" + "db8::8a2e"),
    ("ipv6", "::" + "1"),
    ("mac_address", "3c:52:" + "82:aa:0b:1f"),
    ("email", "someone@" + "example.org"),
    ("host_name", "db-3." + "internal"),
    ("host_name", "ip-10-" + "0-0-1"),
    ("host_name", "n017." + "hpc.uni-x.de"),
    ("gpu_uuid", "GPU-" + "5f3a2b1c"),
    ("gpu_uuid", "MIG-" + "5f3a2b1c-0d4e-4f5a-8b6c-7d8e9f0a1b2c"),
    ("uuid", "deadbeef-" + "1234-4567-8912-abcdefabcdef"),
    ("pci_address", "0000:" + "3b:00.0"),
    ("serial_number", "Serial Number: " + "1654923012345"),
    ("process_id", "pid " + "1234"),
    ("process_id", "pid=" + "77"),
    ("github_token", "gh" + "p_" + "AbCdEfGh" * 3),
    ("github_token", "github" + "_pat_" + "AbCdEfGh" * 3),
    ("huggingface_token", "h" + "f_" + "AbCdEfGh" * 3),
    ("api_key", "s" + "k-" + "AbCdEfGh" * 2 + "7"),
    ("aws_key", "AK" + "IA" + "ABCDEFGH" * 2),
    ("aws_key", "AS" + "IA" + "ABCDEFGH" * 2),
    ("slack_token", "xo" + "xb-" + "AbCdEfGh" * 2),
    ("gitlab_token", "gl" + "pat-" + "AbCdEfGh" * 3),
    ("npm_token", "np" + "m_" + "AbCdEfGh" * 3),
    ("pypi_token", "pypi" + "-AgE" + "IcHlwaS5v"),
    ("google_key", "AI" + "za" + "AbCdEfGh" * 3),
    ("jwt", "ey" + "JhbGciOiJ." + "eyJhIjoxfQ"),
    ("private_key", "-----BEGIN " + "RSA PRIVATE KEY-----"),
    ("authorization", "Bearer " + "abc123def456"),
    ("password", "pass" + "word=hunter"),
    ("token", "access_tok" + "en=abc123xyz"),
    ("long_hex", "dead" + "beef" * 7),
    ("high_entropy", "dGhpcyBpcyBhIHZlcn" + "kgdGhpbmcgdGhhdCBpcyBsb25n"),
    ("high_entropy", "q7Rt2Lw9Xk4+Vb1Nm8Pz3" + "Hs6Jd5Fg0CyTaUeI"),
]
MUST_PASS = [
    *("user", "assistant", "root", "localhost", "runner", "the user asks; a tool answers"),
    *("tokens/s", "24/7", "3/4", "~3/4", "a / b", "and/or", "GB/s", "1/2/3", "s/step", "kg·m/s²"),
    *("2026-12-03T00:22:17Z", "2026-12-03", "00:22:17.5", "1:30", "12:30:45", "3.11.7", "v2.13.0"),
    *("record.json", "seed-42.json", "repro.actkv.cache", "numpy.random", "scipy.io", "self.net.a"),
    *("actkv/kernels", "actkv-adaptive@fit=since_raise", "actkv@mass=0.5", "multi_turn_base_181"),
    *("cost_actkv_token_by_token_1024", "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF", "NVIDIA H200"),
    *("MiniHack-Room-Random-15x15-v0", "DejaVuSans-Oblique-44", "FillBetweenPolyCollection_1"),
    *("x[::2]", "x[::-1]", "x[2048::2]", "x[::1]", "x[a, ::1]", "std::max", "torch::Tensor"),
    *("$T:\\Omega\\to\\mathbb{R}$", "$P:\\alpha\\beta x$", "$\\nu/\\theta$", "a & b \\\\\\hline"),
    *("$x$~MB/s", "\\text{token}=3", "\\frac{a}{b}/\\rho", "$a_{i,j} / \\sum_k b_k$"),
    "f:\\ X \\to Y",
    *("@cache\ndef f():", "\\n@cuda.jit\\ndef", "q@k.mT", "q@k.reshape(1, 2)", "x = a @ b.T"),
    *("max_tokens=max_tokens", "token=token", "password=password", "pad_token=128"),
    "token | share",
    *('{"access_token": "897362"}', "secret=os.environ[x]", "threading.local()", "rapid 3"),
    *("https://arxiv.org/abs/2401.12345", "http://www.w3.org/2000/svg", "see github.com."),
    *("./.venv/lib/python3.11/site-packages/x.py:8: UserWarning: y", "…/x/base.py", "{folder}/a/b"),
    *("numba==0.68.1", "nvidia-cublas==12.8.4.1", "0.3333333333333333333333333333333333333333"),
    *("<td>1.2</td><td>3.4</td><td>5.6</td>", '<b class="eb-kept">12</b><s>"45</s>', "a < b > c"),
    *("bearer of news", "serial decoding", "process 3 of 4", "doi:10.1145/3626183"),
    "M 1.5 2.5 L 3 4",
    *("0x7f3a2b1c4d50", "a1a30acc290bc0e2", "sha256", "50%", "2%20", "&lt;tool&gt;"),
    "\x1b[32m✓\x1b[0m",
]
HASH = "0123456789abcdef" * 4
SMALL = {
    "digest": HASH,
    "inputs": {"modules": {"repro.x": HASH}, "packages": {"numpy": "2.4.6"}},
    "checks": [{"name": "one", "passed": True, "sentence": "One is one."}],
    "comparisons": [{"ids": ["a", "b"], "arms": {"x/y~z": [0.5, 1.0]}}],
    "device": "CPU",
}
RECORDS = sorted((EVIDENCE / "records").rglob("*.json"))
SOURCES = sorted(NOTEBOOKS.rglob("*.ipynb"))
EXECUTED = sorted((BUILD / "executed").rglob("*.ipynb"))
REAL = min((p.read_text() for p in RECORDS), key=len, default=json.dumps(SMALL))
REAL = json.loads(REAL)

NOTEBOOK = {
    "cells": [
        {
            "cell_type": "markdown",
            "id": "title",
            "metadata": {},
            "attachments": {"a.svg": {"image/svg+xml": "<svg/>"}},
            "source": "# Title",
        },
        {
            "cell_type": "code",
            "id": "code",
            "metadata": {"tags": ["one"], "note": {"deep": "x"}},
            "execution_count": 1,
            "source": "x = 1",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": "said"},
                {
                    "output_type": "display_data",
                    "data": {
                        "text/plain": "x",
                        "text/html": "<p>x</p>",
                        "text/markdown": "x",
                        "text/latex": "x",
                        "image/svg+xml": "<svg><text>x</text></svg>",
                        "application/vnd.repro.record+json": SMALL,
                    },
                    "metadata": {"image/png": {"alt": "x"}},
                },
                {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["x"]},
            ],
        },
    ],
    "metadata": {"kernelspec": {"name": "python3"}, "repro": {"seal": HASH}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
LINES = [  # what nbformat may cut into a list of lines
    "/cells/0/source",
    "/cells/0/attachments/a.svg/image~1svg+xml",
    "/cells/1/source",
    "/cells/1/outputs/0/text",
    *(
        f"/cells/1/outputs/1/data/{media.replace('/', '~1')}"
        for media in NOTEBOOK["cells"][1]["outputs"][1]["data"]
        if "json" not in media
    ),
    "/cells/1/outputs/2/traceback",
]


@pytest.fixture(autouse=True)
def forget():
    """What short texts hold is remembered; a test that changes a rule must see its change."""
    sanitize._short.cache_clear()
    yield
    sanitize._short.cache_clear()


def strings(value, at=""):
    """The pointers of all string values."""
    if isinstance(value, str):
        return [at]
    if not isinstance(value, (dict, list)):
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    parts = [(str(k).replace("~", "~0").replace("/", "~1"), v) for k, v in items]
    return [p for part, v in parts for p in strings(v, f"{at}/{part}")]


def get(value, pointer):
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def put(value, pointer, new):
    """`value` in a copy with another value at `pointer`."""
    value = copy.deepcopy(value)
    parent, _, last = pointer.rpartition("/")
    parent = get(value, parent)
    last = last.replace("~1", "/").replace("~0", "~")
    parent[int(last) if isinstance(parent, list) else last] = new
    return value


def says(value, what="Record x", **kwargs):
    """The message of `require_clean`, and the findings as text."""
    with pytest.raises(ReproError) as error:
        require_clean(value, what, **kwargs)
    return f"{error.value!r} {error.value} {kwargs.get('scanner', scan)(value)!r}"


def escaped(text):
    return "".join(f"\\u{ord(c):04x}" for c in text)


def halves(text):
    return text[: len(text) // 2], text[len(text) // 2 :]


WAYS = {
    "plain": lambda s: f"see {s} now",
    "nested JSON": lambda s: f'{{"a": "{escaped(s)}"}}',
    "JSON in nested JSON": lambda s: json.dumps({"a": f'{{"a": "\n{escaped(s)}"}}'}),
    "URL": lambda s: f"https://github.com/x?q={quote(s, safe='')}",
    "entities": lambda s: "see " + "".join(f"&#{ord(c)};" for c in s),
    "HTML": lambda s: f"<p title='x'>{html.escape(s)}</p>",
    "tags": lambda s: "see <s>{}</s><b class='x'>{}</b>".format(*map(html.escape, halves(s))),
    "colours": lambda s: "see \x1b[32m{}\x1b[0m{}".format(*halves(s)),
}


@pytest.mark.parametrize("value", [SMALL, REAL], ids=["small", "real"])
@pytest.mark.parametrize("kind, secret", SECRETS)
def test_every_secret_is_found_in_every_field_of_a_record(kind, secret, value):
    assert scan(value, RECORD_HASHES) == []
    everywhere = value
    for pointer in strings(value):
        everywhere = put(everywhere, pointer, f"{get(value, pointer)} {secret}")
    assert {f.pointer for f in scan(everywhere, RECORD_HASHES) if f.kind == kind} == {
        *strings(value)
    }
    assert secret not in says(everywhere, hashes=RECORD_HASHES)


@settings(max_examples=60)
@given(
    st.sampled_from(SECRETS),
    st.sampled_from(strings(REAL)),
    st.sampled_from(["", "see ", "\n", "at: ", '"', "x, "]),
    st.sampled_from(["", " now", "\n", '"', "'"]),
)
def test_a_secret_is_found_where_it_is_and_nowhere_else(secret, pointer, before, after):
    value = put(REAL, pointer, before + secret[1] + after)
    found = scan(value, RECORD_HASHES)
    assert Finding(pointer, secret[0]) in found and {f.pointer for f in found} == {pointer}
    said = says(value, hashes=RECORD_HASHES)
    assert pointer in said and secret[0] in said and secret[1] not in said


@pytest.mark.parametrize("kind, secret", SECRETS)
def test_a_key_that_is_a_secret_is_named_by_its_position(kind, secret):
    value = {"a/b": [{"x~": 1, "y": 2, secret: {"in": secret}}]}
    found = scan(value)
    assert Finding("/a~1b/0/~key2", kind) in found
    assert Finding("/a~1b/0/~key2/in", kind) in found
    assert secret not in says(value)
    nb = put(NOTEBOOK, "/cells/1/metadata/note", {secret: 1})
    assert Finding("/cells/1/metadata/note/~key0", kind) in scan_notebook(nb)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind, secret", SECRETS)
def test_every_secret_is_found_in_every_place_of_a_notebook(kind, secret, way):
    nb, places = NOTEBOOK, {*strings(NOTEBOOK), *LINES} - {"/cells/1/outputs/2/traceback/0"}
    for pointer in places:
        nb = put(nb, pointer, WAYS[way](secret))
    found = scan_notebook(nb)
    assert {f.pointer for f in found if f.kind == kind} == places
    assert secret not in says(nb, "Notebook x", scanner=scan_notebook)


@pytest.mark.parametrize("kind, secret", SECRETS)
def test_a_secret_split_over_lines_is_found(kind, secret):
    nb = NOTEBOOK
    for pointer in LINES:
        one, two = halves(secret)
        nb = put(nb, pointer, ["first\n", f"see {one}", f"{two} now"])
    assert {f.pointer for f in scan_notebook(nb) if f.kind == kind} == set(LINES)


@pytest.mark.parametrize("text", MUST_PASS)
def test_ordinary_words_pass(text):
    assert scan({text: text, "x": [text, f"see {text} now", f"`{text}`", f"{text}, {text}."]}) == []
    assert scan_notebook(put(NOTEBOOK, "/cells/1/source", [text + "\n", text])) == []


@pytest.mark.parametrize("path", RECORDS, ids=lambda p: str(p.relative_to(EVIDENCE)))
def test_committed_records_are_clean(path):
    require_clean(json.loads(path.read_text()), path.name, RECORD_HASHES)


@pytest.mark.parametrize("path", SOURCES + EXECUTED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_notebooks_are_clean_before_and_after_execution(path):
    assert scan_notebook(json.loads(path.read_text())) == []


def test_hashes_pass_only_where_they_are_listed():
    assert scan({"sha": HASH}) and not scan({"sha": HASH}, ["/sha"])
    assert not scan({"a": {"commit": HASH[:40], "uri": f"sha256:{HASH}"}}, ["/a/.*"])
    assert scan({"sha": HASH, "b": HASH}, ["/sha"])[0].pointer == "/b"
    assert scan({"sha": HASH[:48]}, ["/sha"]) and scan({"sha": HASH + HASH}, ["/sha"])
    assert scan({HASH: 1}, [".*"])[0].pointer == "/~key0"


def test_four_numbers_are_a_version_only_where_versions_are_kept():
    version = "12.8." + "4.1"
    assert not scan({"software": {"versions": {"nvidia-cublas": version}}})
    assert scan({"versions": {"x": f"on {version}"}}) and scan({"host": version})


@pytest.mark.parametrize(
    "entry, kind",
    [
        ({"pid": 1234}, "process_id"),
        ({"password": "hunter"}, "password"),
        ({"access_token": "abc123xyz"}, "token"),
        ({"serial": "1654923012345"}, "serial_number"),
    ],
)
def test_a_key_may_say_what_its_value_is(entry, kind):
    assert scan({"x": entry}) == [Finding(f"/x/{next(iter(entry))}", kind)]


def test_own_host_and_account_are_found_unless_they_are_words(monkeypatch):
    monkeypatch.setattr(sanitize.socket, "gethostname", lambda: "Quartz.example")
    monkeypatch.setattr(sanitize.getpass, "getuser", lambda: "user")
    sanitize._own_names.cache_clear()
    try:
        assert scan(["ran on quartz", "the user", "quartzite"]) == [Finding("/0", "own_name")]
    finally:
        sanitize._own_names.cache_clear()


def picture(kind, comment="", behind=b""):
    buffer, info = io.BytesIO(), PngImagePlugin.PngInfo()
    info.add_text("Comment", comment)
    extra = {"pnginfo": info} if kind == "png" else {"comment": comment.encode()}
    Image.effect_noise((8, 8), 50).save(buffer, kind, **extra)
    return base64.encodebytes(buffer.getvalue() + behind).decode()


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_pictures_are_opened(kind):
    where = "/cells/1/outputs/1/data"

    def kinds(text):
        nb = put(NOTEBOOK, where, {f"image/{kind}": text})
        svg = f'<svg><image href="data:image/{kind};base64,\n{"".join(text)}"/></svg>'
        inside = scan_notebook(put(NOTEBOOK, where, {"image/svg+xml": svg}))
        found = scan_notebook(nb)
        assert {f.pointer for f in found} <= {f"{where}/image~1{kind}"}
        assert {f.kind for f in found} <= {f.kind for f in inside}
        return [f.kind for f in found]

    assert kinds(picture(kind)) == kinds(picture(kind).splitlines(keepends=True)) == []
    assert kinds(picture(kind, comment="by " + "someone@" + "example.org")) == ["email"]
    assert kinds(picture(kind, behind=b"secret")) == ["not_an_image"]
    assert kinds(picture("jpeg" if kind == "png" else "png")) == ["not_an_image"]
    assert kinds(base64.b64encode(b"a secret").decode()) == ["not_an_image"]
    assert kinds("no base64!") == ["not_an_image"]


def test_papermill_metadata_is_found():
    nb = put(NOTEBOOK, "/metadata/papermill", {})
    nb = put(nb, "/cells/1/metadata/papermill", {"exception": False})
    assert scan_notebook(nb) == [
        Finding("/metadata/papermill", "papermill_metadata"),
        Finding("/cells/1/metadata/papermill", "papermill_metadata"),
    ]


def test_the_message_names_at_most_ten_places():
    require_clean({"role": "user"}, "Record x")
    said = says([SECRETS[0][1]] * 12, "Record x")
    assert "Record x holds" in said and "/9: absolute_path; and 2 more" in said
    assert "the whole: absolute_path" in says(SECRETS[0][1])


@pytest.mark.parametrize("value", [b"x", {"a": (1,)}, {1: "x"}, [{"a": {1}}]])
def test_only_plain_json_is_accepted(value):
    with pytest.raises(TypeError, match="accepted"):
        scan(value)


def test_rules_have_a_name(monkeypatch):
    first = sanitize.rules_sha256()
    assert len(first) == 64 and first == sanitize.rules_sha256.__wrapped__()
    monkeypatch.setattr(sanitize, "_TABLE", sanitize._TABLE[1:])
    assert sanitize.rules_sha256.__wrapped__() != first


@pytest.mark.parametrize(
    "i", range(len(sanitize.RULES)), ids=[f"{i}-{r[0]}" for i, r in enumerate(sanitize.RULES)]
)
def test_no_rule_can_be_left_out(i, monkeypatch):
    monkeypatch.setattr(sanitize, "RULES", sanitize.RULES[:i] + sanitize.RULES[i + 1 :])
    assert [secret for _, secret in SECRETS if not scan(f"see {secret} now")]


@pytest.mark.parametrize("part", ["a", "a1", "a.b-", "/a", "1.", "<", "a@", "ab:", "token=", "sk-"])
def test_no_text_takes_long(part):
    started = time.process_time()
    scan([part * 20_000])
    assert time.process_time() - started < 20  # a rule that backtracks would take minutes
