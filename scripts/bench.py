"""``make bench``: costs of the book's machinery as ratios measured in one run; no test is timed.

Also builds the same pages with a plain, newer Sphinx and no Jupyter Book, in an environment of
its own: the way out when Jupyter Book 1 ends.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import bench_scaling
import yaml

from repro import book, files, models, notebooks, runs
from repro.paths import BUILD, ROOT

PLAIN = ["sphinx==9.0.4", "myst-nb==1.4.0", "myst-parser==5.2.0", "sphinx-book-theme==1.4.0"]
OTHERS = (
    "sphinxcontrib-bibtex sphinx-external-toc sphinx-togglebutton sphinx-design "
    "sphinx-mathjax-offline filelock fastjsonschema nh3 psutil pyyaml"
).split()
EXTENSIONS = ["myst_nb", "sphinxcontrib.bibtex", "sphinx_external_toc", "sphinx_togglebutton"]


def seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def bare(key: str) -> None:
    """A notebook through nbclient alone: what execution costs without our rules."""
    import nbformat
    from nbclient import NotebookClient

    path = notebooks.read(key).path
    cell = nbformat.read(path, as_version=4)
    NotebookClient(
        cell, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()


def ratios() -> dict[str, float]:
    """Each value is one duration over another of the same run."""
    keys = notebooks.keys()
    key = keys[0]
    alone = seconds(lambda: bare(key))
    ruled = seconds(lambda: runs.run_once(runs.plan(key), force=True))
    runs.run_all([runs.plan(k) for k in keys])
    shutil.rmtree(book.HTML, ignore_errors=True)
    shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
    full = seconds(book.build)
    again = seconds(book.build)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from repro import models; models.prepare('smollm2-135m')"]
        environment = {"REPRO_CACHE": folder, "PATH": "/usr/bin:/bin"}
        cold = seconds(lambda: subprocess.run(command, env=environment, check=True))
    warm = seconds(lambda: models.load("smollm2-135m"))
    return {
        f"run of {key} under our rules / bare nbclient": ruled / alone,
        "build with nothing changed / full build": again / full,
        "loading the converted model / converting it": warm / cold,
    }


def plain_sphinx(folder: Path) -> int:
    """Build the pages with plain Sphinx; return the number of warnings."""
    venv.create(folder / "env", with_pip=True, system_site_packages=False)
    pip = [str(folder / "env/bin/pip"), "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *PLAIN, *OTHERS], check=True)
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    names = [*EXTENSIONS, *config["sphinx"]["extra_extensions"]]
    settings = config["sphinx"]["config"] | {
        "project": config["title"],
        "extensions": list(dict.fromkeys(names)),
        "bibtex_bibfiles": [str(ROOT / p) for p in config["bibtex_bibfiles"]],
        "myst_enable_extensions": config["parse"]["myst_enable_extensions"],
        "nb_execution_mode": "off",
        "html_theme": "sphinx_book_theme",
        "external_toc_path": str(ROOT / "_toc.yml"),
        "exclude_patterns": [".*", "_build", "README.md"],
        "html_static_path": [str(ROOT / p) for p in config["sphinx"]["config"]["html_static_path"]],
    }
    settings["html_theme_options"].pop("use_fullscreen_button", None)
    lines = [f"import sys; sys.path.insert(0, {str(ROOT)!r})"]
    lines += [f"{name} = {value!r}" for name, value in settings.items()]
    (folder / "conf.py").write_text("\n".join(lines))
    command = [str(folder / "env/bin/python"), "-m", "sphinx", "-q", "-c", str(folder)]
    done = subprocess.run(
        [*command, str(ROOT), str(folder / "html")], capture_output=True, text=True
    )
    for line in done.stderr.splitlines():
        print("  ", line)
    if done.returncode != 0:
        raise SystemExit(f"plain Sphinx failed with exit code {done.returncode}")
    return done.stderr.count("WARNING")


def main() -> None:
    measured = ratios()
    scaling = bench_scaling.curves()
    with tempfile.TemporaryDirectory() as folder:
        warnings = plain_sphinx(Path(folder))
    for name, value in measured.items():
        print(f"{value:8.3f}  {name}")
    bench_scaling.show(scaling)
    print(f"{warnings:8d}  warnings from plain {PLAIN[0]}")
    files.write_atomic(BUILD / "bench.json", json.dumps(measured | scaling, indent=1))


if __name__ == "__main__":
    main()
