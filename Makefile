# `make train` and `make test` work on a fresh machine: they set up .venv first.
# Use the first Python of version 3.11 or later that runs, unless PYTHON= is given. A version
# manager may offer names that do not run, so each name is tried.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1 && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
GAME ?= pong
ARGS ?=

.PHONY: train test learn lint docs setup

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev,docs,atari,minigrid,report]"
	touch $@

setup: $(VENV)/.ready

# An existing run is continued with its own options.
train: setup
	@if [ -f runs/$(GAME)/config.json ]; then \
	$(if $(ARGS),echo "runs/$(GAME) goes on with its own options: ARGS are for a new run";) \
	$(BIN)/agent57 resume runs/$(GAME); \
	else $(BIN)/agent57 train --env $(GAME) --scale laptop --out runs/$(GAME) $(ARGS); fi

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Broken links and missing pages are errors.
docs: setup
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site

test: lint docs
	$(BIN)/pytest

learn: setup
	$(BIN)/pytest -m slow
