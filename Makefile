# Every target sets up what it needs; `make demo` and `make test` work on a fresh Debian machine.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# io.murano comes with the engine; what goes into a catalog is packed.
SAMPLES := $(filter-out library/io.murano/,$(dir $(wildcard library/*/manifest.yaml)))

.PHONY: simulate help setup system demo test fresh test-fast lint format bench docs dashboard packages guest clean soak

help:
	@echo "make demo      set everything up and deploy a real application (DEMO_KEEP=1 leaves it running)"
	@echo "make test      set everything up and run every test"
	@echo "make fresh     both, in a newly bootstrapped Debian: demo and the tests that use its programs"
	@echo "make lint      formatting, lint, types, room contracts"
	@echo "make bench     the published figures, as ratios measured in one run"
	@echo "make simulate  SEEDS=200: the compute control plane in virtual time, against its model"
	@echo "make docs      the generated reference pages"
	@echo "make packages  the sample packages as zips in dist/packages"

setup: system $(VENV)/.installed guest packages

system:
	@tools/system-packages.sh demo

$(VENV)/.installed: pyproject.toml constraints.txt
	@tools/python-environment.sh $(PYTHON) $(VENV)
	@touch $@

guest: $(VENV)/.installed
	@$(BIN)/python -m vetro.guest.build dist/vetro-guest.pyz

packages: $(VENV)/.installed
	@$(BIN)/vetro package build --output dist/packages $(SAMPLES) >/dev/null

demo: setup
	@$(BIN)/python tools/demo.py

# TESTS=machine runs the tests that use programs of the machine, TESTS=rest the others.
TESTS ?= all
test: setup
	@tools/system-packages.sh test
	@tools/vm-python.sh $(VENV)
	@tools/with-postgres.sh tools/with-rabbitmq.sh $(BIN)/python tools/run_tests.py $(TESTS)

fresh:
	@tools/fresh.sh 'make demo' 'make test TESTS=machine'

test-fast: $(VENV)/.installed
	@$(BIN)/pytest -n 2 -m "not root and not e2e and not postgres and not rabbitmq"

lint: $(VENV)/.installed
	@$(BIN)/ruff format --check src tests tools benchmarks
	@$(BIN)/ruff check src tests tools benchmarks
	@$(BIN)/lint-imports --config pyproject.toml
	@$(BIN)/pyright

format: $(VENV)/.installed
	@$(BIN)/ruff format src tests tools benchmarks
	@$(BIN)/ruff check --fix src tests tools benchmarks

bench: setup
	@$(BIN)/python benchmarks/run_all.py

soak: setup
	@tools/fresh.sh 'make demo' 'make test'
	@VETRO_DIFFERENTIAL_EXAMPLES=20000 tools/with-postgres.sh tools/with-rabbitmq.sh $(BIN)/pytest -n 2 -m "not root and not e2e"

SEEDS ?= 200
simulate: $(VENV)/.installed
	@$(BIN)/python tools/simulate.py --seeds $(SEEDS)

docs: $(VENV)/.installed
	@$(BIN)/python tools/write_reference.py docs/reference

dashboard:
	@echo "The web dashboard is not part of this version; see README.md, 'What it does not do yet'."

clean:
	rm -rf dist build .pytest_cache .ruff_cache .hypothesis
