PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= sidestream-out

.PHONY: check test lint typecheck bench peers clean

check: $(VENV)/.ready
	$(BIN)/sidestream check --out $(OUT)

test: $(VENV)/.peers lint typecheck
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not follow import hooks of editable installs, so it sees the
# namespace through a link.
typecheck: $(VENV)/.ready
	mkdir -p $(VENV)/typing && ln -sfn ../.. $(VENV)/typing/sidestream
	MYPYPATH=$(VENV)/typing $(BIN)/mypy -p sidestream.harness -p sidestream.kernels \
	  -p sidestream.reference -p sidestream.scenarios -p sidestream.reports

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks

$(VENV)/.ready: pyproject.toml requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -r requirements.txt
	$(BIN)/python -m pip install -q --no-deps -e .
	-$(BIN)/python -m compileall -q -j 0 harness kernels reference reports scenarios
	touch $@

# Peers are needed by tests and by `check --impl fa4|cudnn`, not by `make check`.
$(VENV)/.peers: $(VENV)/.ready requirements-peers.txt
	$(BIN)/python -m pip install -q --no-deps -r requirements-peers.txt
	touch $@

peers: $(VENV)/.peers

clean:
	rm -rf $(VENV) build *.egg-info $(OUT)
