# Everything a developer or CI runs. Another Python: make test PYTHON=python3.13 VENV=.venv-3.13
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell scripts/find-python.sh 3.11 || command -v python3)
endif
ifeq ($(strip $(PYTHON)),)
$(error No Python found. Install Python 3.11, 3.12 or 3.13; on Debian: apt-get install python3 python3-venv)
endif
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints/$(shell $(PYTHON) -c 'import sys; print("py%d%d" % sys.version_info[:2])').txt
STAMP := $(VENV)/.installed
PYTEST_ARGS ?= -n 2

# Compiled kernels are kept between runs; the tests say so too, for a bare `pytest`.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0

.PHONY: help system system-test setup demo lint format test test-full bench notebooks constraints clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

system:
	@PYTHON=$(PYTHON) scripts/system-packages.sh

# A browser, too, for the tests of pages; nothing else needs one.
system-test:
	@PYTHON=$(PYTHON) scripts/system-packages.sh test

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@scripts/install.sh $(PYTHON) $(VENV) $(CONSTRAINTS)
	@touch $@

constraints/py%.txt:
	@echo "$(PYTHON) is no supported Python: there is no $@." >&2
	@echo "Use 3.11, 3.12 or 3.13, for example: make setup PYTHON=python3.11" >&2
	@exit 2

setup: system $(STAMP)  ## the environment in .venv, with .venv/bin/depgpo

demo: setup  ## rollouts in a sandbox, their credit as pages; then training in the file world
	@$(BIN)/python -m training.demo --out out/demo
	@$(BIN)/depgpo report out/demo/rollouts.jsonl --out out/demo/report
	@$(BIN)/python -m training.demo_world --out out/demo/training

lint: setup  ## style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python scripts/typecheck.py

format: setup  ## put the code into the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test: system-test lint  ## lint, then every test, in groups with their times
	@PYTHON=$(BIN)/python scripts/run-tests.sh $(PYTEST_ARGS)

test-full: test  ## test, then 1,000 rollouts without a leak, then wheel and sdist on every Python found
	@PYTHONPATH=. $(BIN)/python scripts/check-leaks.py
	@scripts/check-install.sh $(BIN)/python

bench: setup  ## the speed table of the README
	@$(BIN)/python -m benchmarks.run

notebooks: setup  ## run every notebook and store its outputs
	@$(BIN)/python scripts/run-notebooks.py

constraints:  ## renew constraints/ from what installs today (PYTHONS="python3.11 …")
	@scripts/update-constraints.sh $(or $(PYTHONS),$(PYTHON))

clean:  ## remove what the other targets made
	@rm -rf .venv .venv-* .cache build dist out .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
