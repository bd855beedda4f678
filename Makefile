# make demo: the pipeline on the embedded example.  make test: style, types and the tests that guard
# the promises.  make test-all: all other tests.  All install first.
# Three environments: .venv for all work, .venv-newest with the newest torch, and .venv-smartnoise for
# the engine smartnoise, which needs old packages. uv keeps one copy of a file that they share.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
NEWEST := .venv-newest
SMARTNOISE := .venv-smartnoise

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
demo test test-all stress mutants fuzz: export SUGARBUSH_STATE := $(CURDIR)/.state
demo test test-all stress mutants fuzz: export PREFECT_HOME := $(CURDIR)/.state/prefect
demo test test-all stress mutants fuzz: export PATH := $(CURDIR)/$(BIN):$(PATH)
test-newest test-smartnoise: export SUGARBUSH_STATE := $(CURDIR)/.state
test-newest test-smartnoise: export PREFECT_HOME := $(CURDIR)/.state/prefect
test-newest: export PATH := $(CURDIR)/$(NEWEST)/bin:$(PATH)
test-smartnoise: export PATH := $(CURDIR)/$(SMARTNOISE)/bin:$(PATH)

.PHONY: env demo test test-all test-newest test-smartnoise constraints lint stress mutants fuzz docs clean

env: $(STAMP)

demo: $(STAMP)
	@$(BIN)/sugarbush run --only-example

# In the order of collection: the longest files are among the first.
IN_TWO := -n 2 --dist loadgroup --no-loadscope-reorder

test: lint
	@$(BIN)/python -m pytest $(IN_TWO) --selection quick

# SHARD=1/2 and SHARD=2/2 divide the rest between two machines.
test-all: $(STAMP)
	@$(BIN)/python -m pytest $(IN_TWO) --selection rest $(SHARD:%=--shard %)

# The fast tests of what computes with torch, with the newest torch. All else is the newest in .venv.
WITH_TORCH := embedding generators training
test-newest: $(NEWEST)/.installed
	@$(NEWEST)/bin/python -m pytest $(IN_TWO) -m "not slow" $(WITH_TORCH:%=tests/unit/%)

# The engine smartnoise in an environment of its own.
test-smartnoise: $(SMARTNOISE)/.installed
	@$(SMARTNOISE)/bin/python -m pytest tests/unit/tables/test_smartnoise.py

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Kills at random moments, a full disk, no network and a clock that goes back.
stress: $(STAMP)
	@$(BIN)/python -m tests.stress

# Changes that break the promise, one at a time: each must fail a test.
mutants: $(STAMP) $(SMARTNOISE)/.installed
	@$(BIN)/python -m tests.mutants
	@$(SMARTNOISE)/bin/python -m tests.mutants smartnoise_prints

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
	$(INSTALL) -e '.[dev,all]'
	touch $@

# $(1): environment, $(2): its constraints, $(3): what it needs
define install_environment
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(1)
	$(BIN)/uv pip install --quiet --python $(1)/bin/python -c $(2) $(3)
	touch $(1)/.installed
endef
TEST_TOOLS := pytest pytest-timeout pytest-xdist hypothesis

$(NEWEST)/.installed: pyproject.toml constraints-newest.txt | $(STAMP)
	$(call install_environment,$(NEWEST),constraints-newest.txt,-e '.[dev$(comma)all]')

$(SMARTNOISE)/.installed: pyproject.toml constraints-smartnoise.txt | $(STAMP)
	$(call install_environment,$(SMARTNOISE),constraints-smartnoise.txt,$(TEST_TOOLS) -e '.[smartnoise]')

# Newer versions for all three environments. The files name no index, and no wheel of one machine.
# constraints.txt differs from constraints-newest.txt only in torch and its CUDA packages.
comma := ,
TESTED_TORCH := torch==2.13.0
COMPILE := UV_FIND_LINKS= $(BIN)/uv pip compile --quiet --upgrade --universal --no-emit-index-url \
  --no-emit-find-links --no-annotate --no-header pyproject.toml
ORDINARY := --extra dev --extra all --extra track --extra docs
constraints: $(STAMP)
	$(COMPILE) $(ORDINARY) -o constraints-newest.txt > /dev/null
	printf '$(TESTED_TORCH)\n' | $(COMPILE) - $(ORDINARY) -o constraints.txt > /dev/null
	printf '%s\n' $(TESTED_TORCH) $(TEST_TOOLS) | $(COMPILE) - --extra smartnoise -o constraints-smartnoise.txt > /dev/null

clean:
	rm -rf $(VENV) $(NEWEST) $(SMARTNOISE) build dist site
