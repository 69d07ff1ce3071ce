# Every command works on a fresh checkout: what it needs is set up first, in .venv, and only once.

PYTHON ?= python3
VENV := .venv
CONSTRAINTS := requirements.lock
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
# Tests start hundreds of processes, each of which would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help run test tests check quick processors lowest pythons images services faults lint format bench screenshots clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.run ## Serve the dashboard with a worker; Ctrl-C ends both
	@echo "== Starting Isoscope"
	@exec $(BIN)/isoscope serve

# What can be wrong without a process, a database server or training, one case of each test: to run before each commit.
check: $(VENV)/.test ## Lint, check types and import rules, run the quick tests: a minute
	@$(MAKE) --no-print-directory -j 2 lint quick

quick: $(VENV)/.test
	@echo "== Running the quick tests"
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not long" tests/unit tests/contract

# Types take a minute on one core, so they are checked beside the tests.
test: $(VENV)/.test ## Lint, check types and import rules, run every test
	@$(MAKE) --no-print-directory -j 2 lint tests

# Many tests wait for processes that they started: fewer testers would leave two cores idle at times.
tests: $(VENV)/.test
	@echo "== Running the tests"
	@$(BIN)/python -m pytest -n 6 --dist worksteal

# Each computes by other kernels: the oldest of all libraries, then those of AVX2 with more threads than a test asks for.
OLDEST := "ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem OMP_NUM_THREADS=1"
PROCESSORS := $(OLDEST) \
  "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=3"
NUMERIC_TESTS := $(addprefix tests/,oracle property unit/isotropy unit/playground unit/statistics unit/workers)

processors: $(VENV)/.test ## Run the numeric tests with the kernels of other processors
	@for kernels in $(PROCESSORS); do \
	  echo "== Numeric tests with $$kernels"; \
	  env $$kernels $(BIN)/python -m pytest -q -n 2 --dist worksteal $(NUMERIC_TESTS) || exit 1; \
	done

# Without types, which are checked with the libraries of requirements.lock.
lowest: ## Install the oldest libraries that Isoscope allows into .venv-lowest, and run the quick tests with them
	@$(MAKE) quick VENV=.venv-lowest CONSTRAINTS=requirements.lowest

pythons: $(VENV)/.test ## Start Isoscope and run the contract tests on every Python from 3.11 on that is here
	@$(BIN)/python -m tests.pythons

ENGINE = $(or $(ISOSCOPE_ENGINE),$(shell command -v docker || command -v podman))
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

images: ## Build both container images, with docker, podman, or the engine that ISOSCOPE_ENGINE names
	@test -n "$(ENGINE)" || { \
	  echo "There is no docker and no podman here. Name an engine: make images ISOSCOPE_ENGINE=/path/to/one" >&2; \
	  exit 1; }
	@for target in web worker; do \
	  echo "== Building isoscope-$$target:$(VERSION) with $(ENGINE)"; \
	  "$(ENGINE)" build --target "$$target" --tag "isoscope-$$target:$(VERSION)" . || exit 1; \
	done

services: $(VENV)/.test ## Build the images, start docker-compose.yml's services, lose a worker, take all down
	@$(BIN)/python -m pytest tests/long/test_services.py

faults: processors ## Run the numeric tests with other kernels, and the long tests: fuzzers, lost machines, images
	@echo "== Running the long tests, half an hour or more"
	@$(BIN)/python -m pytest tests/long
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m long

lint: $(VENV)/.test ## Check style, types and import rules
	@echo "== Checking style"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@echo "== Checking types"
	@$(BIN)/mypy
	@echo "== Checking import rules"
	@$(BIN)/lint-imports

format: $(VENV)/.test ## Mend the style of the code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# But the reproduction of the papers, which wants data and hours.
bench: $(VENV)/.test ## Run every benchmark
	@for file in $(filter-out benchmarks/reproduction.py benchmarks/whole_run.py,$(wildcard benchmarks/[a-z]*.py)); do \
	  name=$$(basename "$$file" .py); \
	  echo "== Benchmark $$name"; \
	  $(BIN)/python -m "benchmarks.$$name" || exit 1; \
	done

screenshots: $(VENV)/.test ## Take the pictures of the documents, of sweeps that it trains in build/screenshots
	@$(BIN)/python -m docs.screenshots build/screenshots

clean: ## Remove the virtual environment and caches; your data stays
	@echo "== Removing $(VENV) and caches"
	@rm -rf $(VENV) .venv-lowest build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find alembic app benchmarks frontend isoscope isotropy samples tests workers -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v "$(PYTHON)" > /dev/null || { \
	  echo "There is no $(PYTHON) here. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11 ..." >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Isoscope needs Python 3.11 or newer, but $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." \
	    "Name another one: make PYTHON=/path/to/python3.11 ..." >&2; \
	  exit 1; }
	@echo "== Creating the virtual environment $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.run: pyproject.toml isoscope/pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "== Installing Isoscope and its worker into $(VENV): minutes the first time"
	@$(BIN)/python -m pip install --disable-pip-version-check -e ./isoscope -e ".[worker]" -c $(CONSTRAINTS)
	@touch $@

$(VENV)/.test: pyproject.toml isoscope/pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "== Installing Isoscope, its worker and the test tools into $(VENV): minutes the first time"
	@$(BIN)/python -m pip install --disable-pip-version-check -e ./isoscope -e ".[worker,test]" -c $(CONSTRAINTS)
	@touch $(VENV)/.run $@
