"""The same pages by plain, newer Sphinx without Jupyter Book: the way out when Jupyter Book 1 ends.

    python scripts/plain_sphinx.py           # in an environment of its own; part of `make bench`

Exit code 1 where the build fails. Warnings are shown and counted.
"""

import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Any

import yaml

from repro.paths import ROOT

PLAIN = ["sphinx==9.0.4", "myst-nb==1.4.0", "myst-parser==5.2.0", "sphinx-book-theme==1.4.0"]
OTHERS = (
    "sphinxcontrib-bibtex sphinx-external-toc sphinx-togglebutton sphinx-design "
    "sphinx-mathjax-offline filelock fastjsonschema nh3 psutil pyyaml"
).split()
EXTENSIONS = ["myst_nb", "sphinxcontrib.bibtex", "sphinx_external_toc", "sphinx_togglebutton"]


def settings() -> dict[str, Any]:
    """What _config.yml says, as the names and values of a conf.py."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    names = [*EXTENSIONS, *config["sphinx"]["extra_extensions"]]
    found = config["sphinx"]["config"] | {
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
    found["html_theme_options"].pop("use_fullscreen_button", None)
    return found


def build(python: str, folder: Path, chosen: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """The pages by the Sphinx of `python` into folder/html, with `chosen` as their settings."""
    lines = [f"import sys; sys.path.insert(0, {str(ROOT)!r})"]
    lines += [f"{name} = {value!r}" for name, value in chosen.items()]
    (folder / "conf.py").write_text("\n".join(lines))
    command = [python, "-m", "sphinx", "-q", "-c", str(folder), str(ROOT), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr)
        raise SystemExit(f"plain Sphinx failed with exit code {done.returncode}")
    return done


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True, system_site_packages=False)
        pip = [str(folder / "env/bin/pip"), "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *PLAIN, *OTHERS], check=True)
        done = build(str(folder / "env/bin/python"), folder, settings())
    for line in done.stderr.splitlines():
        print("  ", line)
    print(f"{done.stderr.count('WARNING')} warnings from plain {PLAIN[0]}")


if __name__ == "__main__":
    main()
