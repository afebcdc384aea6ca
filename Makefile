# `make demo` and `make test` do all of their own set-up below .venv and can be repeated.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Leave `mpich` out where the machine's own MPI is to be used: make test MPI=
MPI ?= mpich
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo docs linkcheck test test-all lint format clean

help:
	@echo "make demo      run the pulse at a few splits and recommend one (about two minutes, emulated load)"
	@echo "make test      lint, type check and test"
	@echo "make docs      build the documentation in docs/_build/html, with warnings as errors"
	@echo "make linkcheck look whether links to other sites hold (needs a network)"
	@echo "make test-all  the same with full counts (kills, random instances) and comparisons of real times"
	@echo "make format    let ruff format the tree"
	@echo "make clean     remove the environment and the demo's results"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(MPI)]"
	touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,$(MPI)]"
	touch $@ $(VENV)/run.stamp

demo: $(VENV)/run.stamp
	@$(BIN)/python -m compileall -q precice_lb tutorials
	$(BIN)/precice-lb demo

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports --no-cache
	$(BIN)/codespell --toml pyproject.toml precice_lb tutorials configs docs README.md CHANGELOG.md

# Two processes: most tests wait for solvers, and none depends on how fast they are.
test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

test-all: lint
	PRECICE_LB_FULL_COUNTS=1 $(BIN)/python -m pytest

docs: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

linkcheck: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx -b linkcheck docs docs/_build/linkcheck

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) demo docs/_build docs/api docs/tutorials build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
