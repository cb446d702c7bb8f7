"""Keep secrets and the machine's identity out of everything that is committed.

`scan` reads every string and key of plain JSON, `scan_notebook` also what a notebook cuts into
lines or encodes, as it stands and decoded (JSON and percent escapes, HTML entities and tags,
terminal colours). Both reject and never redact; a finding names a place and a kind, not the text.

Two choices to know: four numbers with dots are an IPv4 address, loopback too, except after ``==``
or as the whole value of an entry of ``versions`` or ``packages``; a hash of 40 or 64 hex digits
passes only where the caller lists the field.
"""

import base64
import getpass
import html
import io
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from repro import files
from repro.errors import ReproError

RULES_VERSION = "1"
RECORD_HASHES = (r"/digest", r"/inputs/cells", r"/inputs/(modules|assets)/[^/]+")
_RECORD_AT = r"/cells/\d+/outputs/\d+/data/application~1vnd\.repro\.record\+json"
NOTEBOOK_HASHES = (r"/metadata/repro/seal", *(_RECORD_AT + field for field in RECORD_HASHES))

_DOMAINS = (
    "apache|arxiv|creativecommons|doi|json-schema|jupyter|matplotlib|numpy|orcid|pypi|python|"
    "pytorch|schema|scipy|spdx|w3|w3id"
)
_PUBLIC = (
    rf"(?:[\w-]+\.)*(?:(?:{_DOMAINS})\.org|(?:github|githubusercontent)\.com|huggingface\.co|"
    r"(?:in-toto|pypa)\.io|slsa\.dev)(?![\w-]|\.\w)"
)
_START, _STOP = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"  # "_" may come before a secret
_X = r"[0-9A-Fa-f]"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_FOLDERS = "Users|etc|farm|gpfs|home|lustre|mnt|opt|proc|root|scratch|srv|tmp|usr|var"
_TLD = "com|net|org|edu|gov|mil|io|ai|dev|cloud|uk|de|fr|ch|eu|nl|jp|cn"
_NOT_CODE = r"(?![\w(\[-]|\.\w| ?=)"  # threading.local(), data.local = 1, self.net.weight
_TEX = (
    r"(?:(?i:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma"
    r"|tau|phi|chi|psi|omega)|to|times|in|mapsto|rightarrow|cdot|subset|cup|cap|le|ge|ell)\b"
)
_TABLE = (
    # Two parts, or one well-known folder; not "{x}/a/b", "…/a/b", closing tags or "tokens/s".
    ("absolute_path", r"(?<![\w.~…/:*})\]])(?:-[IL])?/+[\w.+@~-]+/|(?<=:)/(?!/)[\w.+@~-]+/"),
    ("absolute_path", rf"(?<![\w.~…/*}})\]<])/(?:{_FOLDERS})(?![\w-])"),
    # TeX writes a map as T:\Omega\to, the end of a row as \\ and a tie as ~.
    ("windows_path", rf"{_START}[A-Za-z]:(?:/|\\\\?(?!{_TEX})[\w .~$-]+\\\\?(?!{_TEX}))[\w.~$-]"),
    ("windows_path", rf"(?<![A-Za-z0-9$])[C-H]:\\\\?(?!{_TEX})[\w.~-]+(?=[\s\"')]|$)"),
    ("unc_path", rf"(?<![\\\w])\\\\(?!{_TEX})[\w.$-]{{2,}}\\(?!{_TEX})[\w.$-]{{2,}}"),
    ("home_path", r"(?:^|(?<=[\s\"'`=:(,\[<]))~(?:[a-z_][\w.-]*)?/[\w.]"),
    ("file_url", r"\b(?:file|s?ftp|scp|ssh|smb|nfs):/|\bgit@[\w.-]+:"),
    ("url_userinfo", r"\w://[^\s/@\"'<>]+@"),
    # Possessive: the host is what follows the user, always.
    ("url", rf"(?i){_START}[a-z][a-z0-9+.-]{{0,20}}://(?=[\w\[])(?:[^\s/@]*+@)?+(?!{_PUBLIC})"),
    ("ipv4", rf"(?<![\w.])(?<!==){_BYTE}(?:\.{_BYTE}){{3}}(?!\w|\.\d)"),
    ("ipv6", rf"(?<![\w:.])(?:{_X}{{1,4}}:){{7}}{_X}{{1,4}}(?![\w:])"),
    # Short forms of public, local and link addresses; x[2048::2] and std::max are none.
    (
        "ipv6",
        rf"(?<![\w:.])(?:[23]{_X}|f[cde]){_X}{{2}}"
        rf"(?:(?::{_X}{{1,4}}){{1,6}}|(?<!\[[23]{_X}{{3}}))::{_X}",
    ),
    ("ipv6", r"(?<![\w:.)\]\[])::1(?![\w:\],])"),
    ("mac_address", rf"(?<![\w:-]){_X}{{2}}([:-]){_X}{{2}}(?:\1{_X}{{2}}){{4}}(?![\w:-])"),
    # A product of matrices, a@b.mT or a@b.reshape(1), is no address; nor is "\n@cuda.jit".
    ("email", r"(?<![\w.+\\-])[\w.+-]+@(?:[\w-]+\.)+(?!mT\b)[A-Za-z]{2,}\b(?![(\[])"),
    ("host_name", rf"(?i)(?<![\w-])[\w-]+\.(?:internal|local|lan|corp|intranet){_NOT_CODE}"),
    ("host_name", rf"(?i){_START}(?:ip|ec2|host)(?:-\d{{1,3}}){{4}}(?!\d)"),
    (
        "host_name",
        rf"(?i)(?<![\w.@-])(?=[\w-]+\.[\w-]+\.)(?!{_PUBLIC}|self\.|cls\.)[a-z0-9][\w-]*(?:\.[a-z0-9][\w-]*)+"
        rf"\.(?:{_TLD}){_NOT_CODE}",
    ),
    ("gpu_uuid", rf"{_START}(?:GPU|MIG)-{_X}{{8}}{_STOP}"),
    ("uuid", rf"{_START}{_X}{{8}}(?:-{_X}{{4}}){{3}}-{_X}{{12}}{_STOP}"),
    ("pci_address", rf"(?<![\w:.]){_X}{{4,8}}:{_X}{{2}}:{_X}{{2}}\.[0-7](?![\w.])"),
    (
        "serial_number",
        rf"(?i){_START}(?:serial(?:[ _-]?(?:number|num|no\.?))?|s/n)[\"']?[\s:=#]+[\"']?"
        r"(?=[A-Z-]*\d)[A-Z0-9-]{6,}",
    ),
    ("process_id", r"(?i)(?<![a-z])(?:p?pid|tgid|process[ _]id)[\"']?[\s=:#]+\d"),
    ("github_token", rf"{_START}(?:gh[pousr]_|github_pat_)\w{{16,}}"),
    ("huggingface_token", rf"{_START}hf_[A-Za-z0-9]{{16,}}"),
    (
        "api_key",
        rf"{_START}sk-(?=[a-zA-Z_-]{{0,50}}\d)[\w-]{{16,}}",
    ),  # "sk-learn-contrib-…" has no digit
    ("aws_key", rf"{_START}(?:AKIA|ASIA|AROA|AGPA)[A-Z0-9]{{12,}}"),
    ("slack_token", rf"{_START}xox[abeoprs]-[\w-]{{10,}}"),
    ("gitlab_token", rf"{_START}glpat-[\w-]{{16,}}"),
    ("npm_token", rf"{_START}npm_[A-Za-z0-9]{{16,}}"),
    ("pypi_token", rf"{_START}pypi-AgE[\w-]{{8,}}"),
    ("google_key", rf"{_START}AIza[\w-]{{16,}}"),
    ("jwt", rf"{_START}eyJ[\w-]{{8,}}\.[\w-]{{8,}}"),
    ("private_key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"),
    (
        "authorization",
        r"(?i)\bbearer\s+(?=[^\s\"']*\d)[\w.~+/-]{8,}|authorization:\s*(?:basic|token)\s+\S{6,}",
    ),
    # Written out, not taken from a variable, a call or the environment.
    (
        "password",
        r"(?i)(?<![a-z])(pass(?:word|wd|phrase)|pwd|secret|api_?key)[\"']?\s*=\s*[\"']?"
        r"(?!\1\b|none\b|true\b|false\b|os\.|getpass)[^\s\"'&,;(){}\[\]<>]{4,}(?![\w.(\[])",
    ),
    (
        "token",
        r"(?i)(?<![a-z])token[\"']?\s*=\s*[\"']?(?=[a-z_+/=-]{0,50}\d)(?=[\d_+/=-]{0,50}[a-z])"
        r"[\w+/=-]{8,}(?![\w.(\[])",
    ),
    ("long_hex", rf"{_START}(?=\d*[A-Fa-f]){_X}{{32,}}{_STOP}"),
    # Random text often goes from letter to digit; names and paths do not, C++'s (_Z…) aside.
    # Text in base64 also goes from small letter to capital.
    (
        "high_entropy",
        r"(?<![\w+/-])(?!_Z)(?=[\w+/-]{32})(?:[\w+/-]*?(?:\d[A-Za-z]|[A-Za-z]\d)){5}",
    ),
    (
        "high_entropy",
        r"(?<![\w+/-])(?=[A-Za-z0-9+/]{40})"
        r"(?:[A-Za-z0-9+/]*?(?:\d[A-Za-z]|[A-Za-z]\d|[a-z][A-Z])){8}",
    ),
)
RULES = tuple((kind, re.compile(pattern)) for kind, pattern in _TABLE)
_LABELLED = {"password", "token", "process_id", "serial_number"}  # also where a key says so
_SHORT = 200  # characters; what is longer is hardly said twice
_COMMON = set(
    "root runner user users localhost vm host admin ubuntu debian docker container jovyan jupyter "
    "home nobody test node build builder worker".split()
)
_HASH = re.compile(rf"{_START}(?:[0-9a-f]{{64}}|[0-9a-f]{{40}}){_STOP}")
_VERSION_AT = re.compile(r".*/(?:versions|packages)/[^/]+")
_END = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9"}
_DATA_URI = re.compile(r"data:(image/png|image/jpeg);base64,([A-Za-z0-9+/=\s]*)")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([nrtbf\"'/\\])")
_CONTROL = dict(zip("nrtbf", "\n\r\t\b\f", strict=True))
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_INLINE = re.compile(r"</?(?:a|b|code|em|i|kbd|mark|s|span|strong|sub|sup|tspan|u|wbr)\b[^<>]*>")
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True)
class Finding:
    """One thing that must not be committed: where (RFC 6901 pointer) and of what kind."""

    pointer: str
    kind: str


def scan(value: Any, hashes: Iterable[str] = ()) -> list[Finding]:
    """What must not be committed in plain JSON data; the empty list where it is clean.

    hashes: patterns of the pointers (whole, as for re.fullmatch) whose values may hold SHA-256 or
    commit hashes. A key that is itself a finding stands in pointers as ``~key3``, its position.
    Raises TypeError for anything but plain JSON.
    """
    return list(dict.fromkeys(_walk(value, "", _any_of(hashes), False)))


def scan_notebook(nb: dict[str, Any], hashes: Iterable[str] = ()) -> list[Finding]:
    """`scan` for an executed notebook (nbformat JSON) with its lines joined and images opened.

    hashes: further patterns besides NOTEBOOK_HASHES. Kinds of its own: ``papermill_metadata`` and
    ``not_an_image``, for a PNG or JPEG that does not decode as one.
    """
    cells = [(f"/cells/{i}", cell) for i, cell in enumerate(nb["cells"])]
    papermill = [
        Finding(f"{at}/metadata/papermill", "papermill_metadata")
        for at, part in [("", nb), *cells]
        if "papermill" in part.get("metadata", {})
    ]
    found = _walk(nb, "", _any_of((*NOTEBOOK_HASHES, *hashes)), True)
    return list(dict.fromkeys([*papermill, *found]))


def require_clean(
    value: Any, what: str, hashes: Iterable[str] = (), scanner: Callable[..., list[Finding]] = scan
) -> None:
    """Raises ReproError, naming `what` and up to ten places and kinds, where `scanner` objects."""
    if found := scanner(value, hashes):
        places = "; ".join(f"{f.pointer or 'the whole'}: {f.kind}" for f in found[:10])
        more = f"; and {len(found) - 10} more" if len(found) > 10 else ""
        raise ReproError(f"{what} holds what must not be committed: {places}{more}.")


@cache
def rules_sha256() -> str:
    """SHA-256 (64 hex digits) of the rules, for a receipt to name."""
    return files.digest([RULES_VERSION, _TABLE])


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p})" for p in patterns) or "(?!)")


def _walk(value: Any, at: str, hashes: re.Pattern[str], notebook: bool) -> Iterator[Finding]:
    if isinstance(value, dict):
        for i, (key, entry) in enumerate(value.items()):
            if not isinstance(key, str):
                raise TypeError(f"Key {i} at {at!r} is a {type(key).__name__}; accepted: str.")
            kinds = _kinds(key)
            here = f"{at}/" + (f"~key{i}" if kinds else _part(key))
            if key.isidentifier() and not isinstance(entry, (dict, list)):
                kinds |= _kinds(f"{key}={str(entry)[:99]}") & _LABELLED
            if notebook:
                entry = _joined(key, entry)
            image = notebook and key in _END and isinstance(entry, str)
            kinds |= _image(key, entry) if image else set()
            yield from (Finding(here, kind) for kind in sorted(kinds))
            if not image:
                yield from _walk(entry, here, hashes, notebook)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _walk(entry, f"{at}/{i}", hashes, notebook)
    elif isinstance(value, str):
        kinds = _kinds(_HASH.sub(" ", value) if hashes.fullmatch(at) else value)
        if _VERSION_AT.fullmatch(at) and re.fullmatch(r"[\d.]+", value):
            kinds -= {"ipv4"}  # NVIDIA's wheels have versions of four numbers
        yield from (Finding(at, kind) for kind in sorted(kinds))
    elif value is not None and not isinstance(value, (bool, int, float)):
        raise TypeError(f"The value at {at!r} is a {type(value).__name__}; accepted: plain JSON.")


def _part(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _joined(key: str, entry: Any) -> Any:
    """The lines of a notebook's text as one: glued, as nbformat says, and each on its own."""
    named = key in ("source", "text", "traceback") or "/" in key  # a media type
    if not (named and isinstance(entry, list) and all(isinstance(line, str) for line in entry)):
        return entry
    return "".join(entry) if key in _END else "".join(entry) + "\n" + "\n".join(entry)


def _kinds(text: str) -> set[str]:
    """The kinds of everything in `text`, as it stands and decoded."""
    return set(_short(text)) if len(text) <= _SHORT else _found(text)


@lru_cache(maxsize=2**14)
def _short(text: str) -> frozenset[str]:
    """Records say the same names again and again."""
    return frozenset(_found(text))


def _found(text: str) -> set[str]:
    kinds: set[str] = set()

    def open_image(match: re.Match[str]) -> str:
        kinds.update(_image(match[1], match[2]))
        return " "

    forms = _forms(_DATA_URI.sub(open_image, text))
    kinds |= {kind for kind, rule in RULES if any(map(rule.search, forms))}
    if (own := _own_names()) and any(map(own.search, forms)):
        kinds.add("own_name")
    return kinds


def _forms(text: str) -> list[str]:
    """`text` and what it becomes as its layers of encoding come off one by one."""
    forms = {text: None}
    # Cells of a table stay apart, or two numbers would become one address.
    for form in (text, _TAG.sub(" ", _INLINE.sub("", text))):
        for _ in range(3):
            for decode in (partial(_ANSI.sub, ""), _unescape, unquote, html.unescape):
                form = decode(form)
                forms[form] = None
    return list(forms)


def _unescape(text: str) -> str:
    """JSON's and Python's escapes undone wherever they stand."""
    return _ESCAPE.sub(
        lambda m: _CONTROL.get(m[3], m[3]) if m[3] else chr(int(m[1] or m[2], 16)), text
    )


def _image(media: str, text: str) -> set[str]:
    """The kinds in the texts that a base64 image carries; ``not_an_image`` where it is none."""
    from PIL import Image

    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        with Image.open(io.BytesIO(data), formats=[media.removeprefix("image/")]) as image:
            image.load()
            said = [v for k, v in image.info.items() if k != "icc_profile"]
    except (ValueError, OSError, SyntaxError, Image.DecompressionBombError):
        return {"not_an_image"}
    if not data.endswith(_END[media]):  # something hides behind the picture
        return {"not_an_image"}
    texts = (v.decode("latin-1") if isinstance(v, bytes) else v for v in said)
    return set().union(*(_kinds(v) for v in texts if isinstance(v, str)))


@cache
def _own_names() -> re.Pattern[str] | None:
    """This machine's host and account name, unless they are words or too short to tell."""
    host = socket.gethostname()
    names = {host, host.partition(".")[0], Path.home().name}
    try:
        names.add(getpass.getuser())
    except (KeyError, OSError):
        pass
    own = sorted(re.escape(n) for n in names if len(n) > 2 and n.lower() not in _COMMON)
    return re.compile(rf"(?i){_START}(?:{'|'.join(own)}){_STOP}") if own else None
