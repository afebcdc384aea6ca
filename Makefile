# `make demo` and `make test` do all of their own set-up below .venv and can be repeated.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Most of what the packages have is never imported here: what is, Python compiles then.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Leave `mpich` out where the machine's own MPI is to be used: make test MPI=
MPI ?= mpich
comma := ,
JOBS ?= 2
# More processes than processors: most tests wait for solvers, and none depends on how fast they are.
PYTEST := $(BIN)/python -m pytest -n $(shell expr $(JOBS) + 2)
# The tests of one file share a Slurm.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Hundreds of processes import the same modules, which one of them is to compile for all.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo docs linkcheck test test-machine test-all mutants lint types style compiled format clean

help:
	@echo "make demo      run the pulse at a few splits and recommend one (about two minutes, emulated load)"
	@echo "make lint      check types, style, imports, docstrings, scripts, Dockerfiles, and code and links in the documentation"
	@echo "make test      make lint, and the tests"
	@echo "make test-machine  the tests that need Slurm, Open MPI or Chromium, which make test leaves out"
	@echo "make docs      build the documentation in docs/_build/html, with warnings as errors, and run its code"
	@echo "make linkcheck look whether links to other sites hold (needs a network)"
	@echo "make test-all  lint and all tests, with full counts, statistics and comparisons of real times"
	@echo "make mutants   plant bugs at random and print those that no test notices (hours; SUBPACKAGES=split SEED=1 for some)"
	@echo "make format    let ruff format the tree"
	@echo "make clean     remove the environment and the demo's results"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e ".$(if $(MPI),[$(MPI)])"
	touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[dev$(if $(MPI),$(comma)$(MPI))]"
	touch $@ $(VENV)/run.stamp

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP) -e ".[docs]"
	touch $@

demo: $(VENV)/run.stamp
	@$(BIN)/python -m compileall -q -x '/\.venv/' precice_lb
	$(BIN)/precice-lb demo

lint: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory -j $(JOBS) types style

# numpy's newest types for Python 3.10 know too little.
types: $(VENV)/dev.stamp
	@if $(BIN)/python -c "import sys; sys.exit(sys.version_info < (3, 11))"; \
	then $(BIN)/mypy; else echo "types are checked from Python 3.11 on"; fi

style: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell --toml pyproject.toml precice_lb tutorials configs docs README.md CHANGELOG.md
	$(BIN)/python -m pytest -q tests/lint

# Tests that pytest has read once are compiled for all the processes that run them.
compiled: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -q --collect-only --ignore tests/docs >/dev/null

test: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory -j $(JOBS) types style compiled
	$(PYTEST) --dist worksteal --ignore tests/lint --ignore tests/docs -m "not (openmpi or slurm or browser)"

# What needs a Slurm, Open MPI or Chromium of this machine, which `make test` leaves out, and what depends on which of
# them there are.
test-machine: $(VENV)/dev.stamp
	$(PYTEST) $(BY_FILE) -m "launcher or openmpi or slurm or browser"

test-all: $(VENV)/docs.stamp types style
	PRECICE_LB_FULL_COUNTS=1 $(PYTEST) $(BY_FILE) -m "not alone"
	PRECICE_LB_FULL_COUNTS=1 $(BIN)/python -m pytest -m alone

# See CONTRIBUTING.md.
mutants: $(VENV)/dev.stamp
	PYTHONPATH=tests $(BIN)/python -m mutants --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(SUBPACKAGES)

docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m pytest -q tests/docs

linkcheck: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -b linkcheck docs docs/_build/linkcheck

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) demo docs/_build docs/api docs/tutorials build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
