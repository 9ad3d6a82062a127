# Everything below needs python3 (3.11 or newer), make and git; `make help` lists the commands.

PYTHON ?= python3
UV ?= uv
ARGS ?=
TEST_WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.ready-to-run
TEST_READY := $(VENV)/.ready-to-test
TRYTON_VENV := .venv-tryton
TRYTON_READY := $(TRYTON_VENV)/.ready
INSTALL := $(BIN)/python tools/pip_install.py

# Only as given on the command line: shells and hosts set HOST and PORT for purposes of their own.
ifeq ($(origin HOST),command line)
export CRMHUB_HOST := $(HOST)
endif
ifeq ($(origin PORT),command line)
export CRMHUB_PORT := $(PORT)
endif

# An environment that was moved, or whose Python is gone, is made anew.
ifneq ($(shell test -x $(BIN)/python && cat $(VENV)/.made-for 2>/dev/null),$(CURDIR))
$(shell rm -f $(VENV)/.made-for $(RUN_READY) $(TEST_READY))
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run test test-all test-tryton docs lint format lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  Options: make run PORT=8081 HOST=0.0.0.0 · make test ARGS="-k search" · PYTHON=python3.12'

install: $(RUN_READY) ## set up .venv to run crmhub, and do no more

run: $(RUN_READY) ## set up, create a demo account, print a link to the console and commands to try, serve
	@$(COMPILE)
	@$(DOCUMENTS)
	@echo
	@$(BIN)/crmhub demo
	@exec $(BIN)/crmhub serve

# Where PYTHONDONTWRITEBYTECODE is set, each worker would compile all tests anew in each run.
test: $(TEST_READY) ## set up and run the tests, on every database that can be reached
	@$(DOCUMENTS)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(TEST_WORKERS) $(ARGS)

test-all: $(TEST_READY) $(TRYTON_READY) ## run the tests at every point, where `make test` takes a part of them (tests/depth.py)
	@$(DOCUMENTS)
	@CRMHUB_TEST_ALL=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) $(ARGS)

test-tryton: $(TEST_READY) $(TRYTON_READY) ## run all tests of the Tryton adapter, on a Tryton that this installs
	@$(DOCUMENTS)
	@CRMHUB_TEST_ALL=1 CRMHUB_TEST_REQUIRE=tryton $(BIN)/python -m pytest -n $(TEST_WORKERS) tests/adapters/tryton $(ARGS)

docs: $(RUN_READY) ## build the documents that /docs serves, after a change of docs/
	@$(DOCUMENTS)

# What has texts beside gettext's own functions: errors, and constants of modules that know no Flask.
TEXTS := $(addprefix -k ,lazy_gettext translatable BadRequest ChangedMeanwhile Conflict Forbidden InvalidValue \
	LimitExceeded NotFound Semantic TooManyRequests Unauthorized Unavailable)

translations: $(TEST_READY) ## find the texts to translate in templates and modules, and add them to the catalogues
	@mkdir -p build
	@PYTHONPATH=. $(BIN)/pybabel -q extract -F pyproject.toml $(TEXTS) --no-location --sort-output -o build/texts.pot .
	@$(BIN)/pybabel -q update -i build/texts.pot -d crmhub/translations --no-fuzzy-matching --ignore-obsolete --omit-header -w 100
	@$(DOCUMENTS)

lint: $(TEST_READY) ## style, formatting, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(TEST_READY) ## let ruff mend style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# --universal: one file for every platform and every Python from 3.11 on.
PINS := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-config \
	--custom-compile-command "make lock" $(ARGS)
LOCK := $(PINS) pyproject.toml --extra pg --group build

lock: ## write all lock files anew from pyproject.toml (ARGS=--upgrade for newer versions)
	@command -v $(UV) >/dev/null || { echo >&2 "make lock needs uv: install it, or name it with UV=/path/to/uv."; exit 1; }
	$(UV) $(LOCK) --output-file requirements.lock
	$(UV) $(LOCK) --extra testing --group dev --constraint requirements.lock --output-file requirements-test.lock
	$(UV) $(PINS) tests/tryton/requirements.in --output-file tests/tryton/requirements.txt

clean: ## remove the environment and every cache (not var/, where the data is)
	rm -rf $(VENV) $(TRYTON_VENV) build dist crmhub/documents .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made-for:
	@command -v $(PYTHON) >/dev/null || { \
	  echo >&2 "$(PYTHON) was not found. crmhub needs Python 3.11 or newer."; \
	  echo >&2 "Install it (Debian, Ubuntu: apt install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12"; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo >&2 "$(PYTHON) is $$($(PYTHON) --version 2>&1). crmhub needs Python 3.11 or newer."; \
	  echo >&2 "Name a newer one: make PYTHON=/path/to/python3.12"; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo >&2 "$(PYTHON) cannot make virtual environments: its module venv or ensurepip is missing."; \
	  echo >&2 "Install it (Debian, Ubuntu: apt install python3-venv)."; \
	  exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@echo '$(CURDIR)' >$@

# Each process of the service would compile the sources anew where PYTHONDONTWRITEBYTECODE is set.
COMPILE = $(BIN)/python -m compileall -q crmhub adapters

# Installing builds the documents, too; this builds them again when a page has changed.
DOCUMENTS = $(BIN)/python hatch_build.py

# $(call install,LOCK): the locked versions, then the project itself, editable.
define install
	@$(INSTALL) "the packages of $(1)" --require-hashes -r $(1)
	@$(INSTALL) crmhub --no-deps --no-build-isolation --editable .
	@$(COMPILE)
endef

$(RUN_READY): $(VENV)/.made-for requirements.lock pyproject.toml
	$(call install,requirements.lock)
	@touch $@

# The test lock holds all of the runtime lock, so `make run` has nothing left to do afterwards.
$(TEST_READY): $(VENV)/.made-for requirements-test.lock requirements.lock pyproject.toml
	$(call install,requirements-test.lock)
	@touch $(RUN_READY) $@

# Tryton has an environment of its own: the hub needs none of it.
$(TRYTON_READY): tests/tryton/requirements.txt | $(VENV)/.made-for
	@$(PYTHON) -m venv --clear $(TRYTON_VENV)
	@$(TRYTON_VENV)/bin/python tools/pip_install.py Tryton --require-hashes -r $<
	@touch $@
