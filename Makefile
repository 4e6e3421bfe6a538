# make demo    install, speak the bundled English set, score what was said
# make test    install with the developer tools, lint, check types, run the tests
# make check   lint and types alone
# make clean   remove what the targets above made, but for runs/
#
# PYTHON       the interpreter the environment is made with (3.11, 3.12 or 3.13)
# CONSTRAINTS  the pins to install under; /dev/null for none
# DEMO_RUN     where the demo writes; a new folder each time
# PYTEST_ARGS  more arguments for pytest

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
DEMO_RUN := $(or $(DEMO_RUN),runs/demo-$(shell date +%Y%m%d-%H%M%S))
PYTEST_ARGS ?=

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

.PHONY: demo test check clean install install-dev
.DEFAULT_GOAL := help
.PHONY: help
help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

# A stamp is written only when its step succeeded, so a broken install is tried again and a good one is not.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "ttsbench needs Python 3.11, 3.12 or 3.13, but PYTHON=$(PYTHON) is $$($(PYTHON) --version 2>&1);" \
		"name another one: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.python pyproject.toml $(CONSTRAINTS)
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable '.[dev]'
	@touch $@

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

demo: install
	$(BIN)/ttsbench synth --set mini-en --out $(DEMO_RUN)
	$(BIN)/ttsbench score $(DEMO_RUN)
	@echo "Listen: $(DEMO_RUN)/wav"

check: install-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# pytest comes last, and its summary is the last line. Workers take stretches of tests in order, so a module's fixtures are
# mostly built once, and steal from each other towards the end.
test: check
	$(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find ttsbench tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
