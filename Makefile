# Every target sets up what it needs: a fresh machine with Python 3.11 or newer, git and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help lessons test test-oracles check format clean

help:
	@echo "make lessons       runs every lesson and prints the verdicts"
	@echo "make test          the test suite"
	@echo "make test-oracles  the tests against PyTorch"
	@echo "make check         lint, format and types"
	@echo "make format        lets ruff rewrite the files"
	@echo "make clean         removes the environment and everything built"

# A stamp file per set of packages, newer than what it depends on: running again installs nothing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "minitransformer needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing minitransformer into $(VENV) (a minute or two the first time) ..."
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.oracles: $(VENV)/.installed
	@echo "installing PyTorch as an oracle ..."
	@$(PIP) torch==2.13.0
	@touch $@

$(VENV)/.check: $(VENV)/.installed
	@$(PIP) ruff mypy
	@touch $@

lessons: $(VENV)/.installed
	@$(BIN)/minitransformer lessons

test: $(VENV)/.installed
	@$(BIN)/python -m pytest

test-oracles: $(VENV)/.oracles
	@$(BIN)/python -m pytest -m oracle

check: $(VENV)/.check
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.check
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
