# Two commands: `make demo` and `make test`. Both make the environment first, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# uv does not read pip's variable for local wheels.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export HF_HUB_OFFLINE ?= 1
# Threads that wait by spinning slow each other down by a factor where processes share cores.
export OMP_WAIT_POLICY ?= passive

# The demo and the tests keep what must outlive a run inside the checkout, so that any number of
# clones on one machine work.
demo test: export SUGARBUSH_STATE := $(CURDIR)/.state
demo test: export PREFECT_HOME := $(CURDIR)/.state/prefect

.PHONY: demo test env clean

env: $(STAMP)

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sugarbush run --only-example

test: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 --dist loadgroup

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev,smartnoise,redaction]' -c constraints.txt
	touch $@

clean:
	rm -rf $(VENV)
