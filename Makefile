# `make train` and `make test` work on a fresh machine: they set up .venv first.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
GAME ?= pong
ARGS ?=

.PHONY: train test learn lint setup

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev,minigrid,report]"
	touch $@

setup: $(VENV)/.ready

# A run that is there already is continued, with the options it was begun with.
train: setup
	@if [ -f runs/$(GAME)/config.json ]; then \
	$(if $(ARGS),echo "runs/$(GAME) goes on as it was begun: ARGS are for a new run";) \
	$(BIN)/agent57 resume runs/$(GAME); \
	else $(BIN)/agent57 train --env $(GAME) --scale laptop --out runs/$(GAME) $(ARGS); fi

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

learn: setup
	$(BIN)/pytest -m slow
