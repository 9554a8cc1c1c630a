# `make` lists the targets. Each of them first brings .venv up to date, which costs nothing when it is.

PYTHON ?= $(shell for python in python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
PIP_FLAGS ?=
JOBS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# pyright otherwise asks PyPI for a newer release of itself, each time it runs.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help install demo mappings check fresh lint typecheck format test audit bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## build the environment .venv, all supported frameworks included

# The stamp is written last: an interrupted installation is taken up again. sinabs comes without its dependencies, for
# the reason that constraints.txt gives; pbr is the only one of them that is needed and not already there.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Building $(VENV) with $(PYTHON); the first time takes some minutes and about 6 GB."
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-warn-conflicts --constraint constraints.txt --editable ".[frameworks,test,dev]"
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --constraint constraints.txt sinabs pbr
	@touch $@

demo: $(INSTALLED) ## regenerate the tables, take a network to a .nir file and back, show the coverage
	$(BIN)/nirmap generate
	$(BIN)/python examples/demo.py
	$(BIN)/nirmap audit

mappings: $(INSTALLED) ## regenerate generated/ from mappings/, and execute every mapping for COVERAGE.md
	$(BIN)/nirmap generate
	$(BIN)/nirmap audit --write

check: fresh lint typecheck ## generated files fresh, schemas valid, lint, format, strict types

fresh: $(INSTALLED) ## generated files fresh, schemas valid, every mapping executed and right
	$(BIN)/nirmap check
	$(BIN)/nirmap audit --check

lint: $(INSTALLED) ## ruff: lint rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(INSTALLED) ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright

format: $(INSTALLED) ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# One thread per worker: torch would otherwise start as many as there are cores in each of them.
test: export OMP_NUM_THREADS ?= 1
test: $(INSTALLED) ## run all tests; a skipped one is a failure. One file: make test ARGS=tests/test_packaging.py
	$(BIN)/python -m pytest -n $(JOBS) --fail-on-skip $(ARGS)

audit: $(INSTALLED) ## execute every mapping: which NIR primitives each framework covers
	$(BIN)/nirmap audit

bench: $(INSTALLED) ## run every benchmark
	@for program in $(sort $(wildcard benchmarks/[!_]*.py)); do \
		echo "== $$program"; $(BIN)/python $$program || exit 1; done

clean: ## remove the environment and all caches
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .nirmap_cache
