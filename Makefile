# make demo: the pipeline on the embedded example.  make test: all tests.  Both install first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

# uv does not read pip's variable for local wheels.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export HF_HUB_OFFLINE ?= 1
# Threads that spin while they wait slow each other down where processes share cores.
export OMP_WAIT_POLICY ?= passive

# Without stored bytecode, every process compiles what it imports: seconds for each.
export PYTHONDONTWRITEBYTECODE :=

# Clones on one machine share no state: it is inside each checkout.
demo test test-fast stress mutants fuzz: export SUGARBUSH_STATE := $(CURDIR)/.state
demo test test-fast stress mutants fuzz: export PREFECT_HOME := $(CURDIR)/.state/prefect
demo test test-fast stress mutants fuzz: export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: env demo test test-fast lint stress mutants fuzz docs clean

env: $(STAMP)

demo: $(STAMP)
	@$(BIN)/sugarbush run --only-example

# In the order of collection: the longest files are among the first.
IN_TWO := -n 2 --dist loadgroup --no-loadscope-reorder

test: $(STAMP)
	@$(BIN)/python -m pytest $(IN_TWO)

test-fast: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/python -m pytest $(IN_TWO) -m "not slow" tests/unit tests/property

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Kills at random moments, a full disk, no network and a clock that goes back.
stress: $(STAMP)
	@$(BIN)/python -m tests.stress

# Changes that break the promise, one at a time: each must fail a test.
mutants: $(STAMP)
	@$(BIN)/python -m tests.mutants

# Damaged inputs of every kind: only clean errors. CASES=500 and TARGETS="csv ledger" shorten it.
fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzz --cases $(or $(CASES),100000) $(TARGETS)

docs: $(STAMP)
	@$(INSTALL) -e '.[docs]'
	@$(BIN)/mkdocs build --strict

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(INSTALL) -e '.[dev,all,smartnoise]'
	touch $@

clean:
	rm -rf $(VENV) build dist site
