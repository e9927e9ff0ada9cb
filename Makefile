# `make scan` and `make test` do all set-up themselves, in .venv; both are quick from the second run on.

PYTHON ?= python3
VENV ?= .venv
# Options of `hostdoctor scan` and of pytest: make scan ARGS="--root DIR", make test ARGS="-k iommu"
ARGS ?=
# Empty to install a copy instead of a link to this folder.
EDITABLE ?= --editable

PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: help scan test hangs lab lab-images lab-trees lint docs bench venv clean

help:
	@echo 'make scan    judge this host (sets up $(VENV) first)'
	@echo 'make test    run the tests'
	@echo 'make hangs   run the tests beside a file system that never answers (needs root)'
	@echo 'make lab     run the tests that boot real kernels under QEMU (needs root)'
	@echo 'make lint    ruff and mypy'
	@echo 'make docs    make the man page, completions, docs/checks.md and the JSON schema again'
	@echo 'make bench   measure the budgets'
	@echo 'make venv    only set up $(VENV), with the tools of development'
	@echo 'make clean   remove $(VENV) and what the tools leave'

# Status 1 means that something was found. That is no fault of make, so it is said in words and make ends well;
# scripts call $(VENV)/bin/hostdoctor, whose status says it.
scan: $(VENV)/.installed
	@$(VENV)/bin/hostdoctor scan $(ARGS); status=$$?; \
	if [ $$status -eq 1 ]; then echo; \
	echo 'hostdoctor ended with status 1: it found something, see above. Run again: $(VENV)/bin/hostdoctor scan'; \
	elif [ $$status -ne 0 ]; then exit $$status; fi

test: $(VENV)/.installed-dev
	@$(VENV)/bin/pytest $(ARGS)

hangs: $(VENV)/.installed-dev
	@$(VENV)/bin/pytest -m hang $(ARGS) tests/hangs

lab: $(VENV)/.installed-dev
	@$(VENV)/bin/pytest -m lab $(ARGS) tests/lab

# What the guests boot from: minutes the first time, then only where something changed. `make lab` does it too.
lab-images: $(VENV)/.installed-dev
	@$(VENV)/bin/python -m tests.lab.image $(ARGS)

# Records guests as cases in tests/cases; with the same images the same bytes come out.
lab-trees: $(VENV)/.installed-dev
	@$(VENV)/bin/python -m tests.lab.record $(ARGS)

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(VENV)/.installed-dev
	@$(VENV)/bin/python packaging/generate.py

bench: $(VENV)/.installed-dev
	@$(VENV)/bin/python bench/run.py $(ARGS)

venv: $(VENV)/.installed-dev

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The stamps are younger than pyproject.toml as long as what it asks for is installed.
$(VENV)/.installed: pyproject.toml $(VENV)/.created
	@echo 'Installing hostdoctor into $(VENV) ...'
	@$(PIP) $(EDITABLE) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.created
	@echo 'Installing hostdoctor and its development tools into $(VENV) ...'
	@$(PIP) $(EDITABLE) '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || \
	{ echo 'There is no $(PYTHON) here: apt-get install -y python3-venv (Debian, Ubuntu)'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	{ echo 'hostdoctor needs Python 3.10 or newer: make PYTHON=python3.12 scan'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo 'This Python cannot make virtual environments: apt-get install -y python3-venv (Debian, Ubuntu)'; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@
