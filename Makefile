# Every target sets up what it needs; `make demo` and `make test` work on a fresh Debian machine.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# What comes with the engine needs no catalog; the samples are packed.
SAMPLES := $(filter-out library/io.murano%,$(dir $(wildcard library/*/manifest.yaml)))

.PHONY: mutants deb openstack simulate coverage help setup setup-demo system demo test test-all test-setup suites unproven fresh newest test-fast lint format bench docs dashboard pictures packages guest clean soak repeat

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## the virtual environment, the guest archive, the sample packages, the dashboard
	@$(MAKE) --no-print-directory setup-demo PACKAGES=$(VENV)/.installed
	@tools/timed.sh "The dashboard" tools/dashboard.sh $(VENV) --optional

# What is independent is installed side by side; the virtual environment needs Python's own package first.
# An environment that has what tests need keeps it up to date: its packages fit each other.
PACKAGES ?= $(or $(wildcard $(VENV)/.installed),$(VENV)/.running)
setup-demo: ## what `make demo` needs: no programs of tests, no dashboard
	@tools/system-packages.sh python
	@$(MAKE) --no-print-directory -j 2 system $(PACKAGES)
	@$(MAKE) --no-print-directory -j 2 guest packages

system: ## the Debian packages that `make demo` needs
	@tools/timed.sh "The Debian packages" tools/system-packages.sh demo

$(VENV)/.running: pyproject.toml constraints.txt hashes-run.txt
	@tools/timed.sh "The Python packages" tools/python-environment.sh $(PYTHON) $(VENV) run
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt hashes.txt
	@tools/system-packages.sh python
	@tools/timed.sh "The Python packages for tests" tools/python-environment.sh $(PYTHON) $(VENV)
	@touch $(VENV)/.running
	@touch $@

guest: $(VENV)/.running ## the guest agent as one file, dist/vetro-guest.pyz
	@$(BIN)/python -m vetro.guest.build dist/vetro-guest.pyz

packages: $(VENV)/.running ## the sample packages as zips in dist/packages
	@$(BIN)/vetro package build --output dist/packages $(SAMPLES) >/dev/null

deb: setup ## a Debian package of this tree, in dist/ (with the distribution's own Python)
	@tools/debian_package.sh $(VENV) dist

# The dashboard is shown with DEMO_KEEP=1 only, and is built then only.
demo: $(if $(filter 1,$(DEMO_KEEP)),setup,setup-demo) ## set up what it needs and deploy a real application (DEMO_KEEP=1 leaves it running)
	@$(BIN)/python tools/demo.py

# What tests need beside what `make setup` installs, and the servers that they share.
SERVERS := tools/with-postgres.sh tools/with-rabbitmq.sh tools/with-s3.sh
test-setup: setup ## what tests need beside what `make setup` installs
	@tools/system-packages.sh test
	@tools/vm-python.sh $(VENV)
	@tools/stock-clients.sh $(PYTHON) .venv-stock
	@$(MAKE) --no-print-directory $(VENV)/.collected

# What tests import is compiled once: seven processes that begin together would each do it. What cannot be
# imported is said by the run that follows.
$(VENV)/.collected: $(VENV)/.installed
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --collect-only -q -p no:cacheprovider >/dev/null || true
	@touch $@

test: test-setup ## set everything up and run the tests that decide whether this tree is right here
	@$(SERVERS) $(BIN)/python tools/run_tests.py quick $(if $(WRITE),--keep-budget)

# SUITE="languages server": these suites of tests/suites.toml only. What passed is kept in tests/passed.json.
test-all: test-setup ## every test at full effort, by suites (SUITE=name: these only)
	@$(SERVERS) $(BIN)/python tools/run_tests.py all $(SUITE)

suites: $(VENV)/.installed ## the suites of `make test-all`, and which are proven
	@$(BIN)/python tools/run_tests.py list

# WITHIN: seconds on a quiet host of the usual speed. CI runs it beside `make fresh`.
WITHIN ?= 1200
unproven: test-setup ## the unproven suites that end WITHIN so many seconds; the others by name
	@$(SERVERS) $(BIN)/python tools/run_tests.py unproven $(WITHIN)

fresh: ## the README's two commands in a newly bootstrapped Debian
	@tools/fresh.sh 'make demo' 'make test'

# Installs the packages of Keystone, Heat, Neutron, Nova, Glance and Cinder: `tools/fresh.sh 'make openstack'`
# does it in a new Debian. VETRO_OPENSTACK_KIT: the directory of its install.sh, else ../shared/openstack.
openstack: setup ## the tests against a real OpenStack, which is installed and started for them (as root)
	@tools/with-openstack.sh $(BIN)/python tools/run_tests.py openstack

test-fast: $(VENV)/.installed ## the tests that need neither root nor servers
	@$(BIN)/pytest -n 2 -m "not root and not e2e and not postgres and not rabbitmq and not s3 and not openstack"

# Programs of the languages must mean the same on every Python that pyproject.toml promises. The longest
# tests with drawn examples are left to `make test`: what they look for does not depend on the interpreter.
NEWEST := .venv-newest
newest: export VETRO_TEST_EFFORT ?= 0.2
newest: guest ## the tests of the languages, packages and guest on the newest Python of the machine
	@tools/python-environment.sh "$$(tools/newest-python.sh)" $(NEWEST)
	@$(NEWEST)/bin/pytest -n 2 -p no:cacheprovider -m "not root and not e2e and not programs" \
	  -k "not fuzz and not guarded_matcher and not essence and not largest_texts and not speaks_python" \
	  tests/yaql tests/muranopl tests/packages tests/guest tests/secrecy

lint: $(VENV)/.installed ## formatting, lint, types, room contracts
	@$(BIN)/ruff format --check src tests tools benchmarks
	@$(BIN)/ruff check src tests tools benchmarks
	@$(BIN)/lint-imports --config pyproject.toml
	@$(BIN)/pyright

format: $(VENV)/.installed ## format the code, and mend what the linter can mend
	@$(BIN)/ruff format src tests tools benchmarks
	@$(BIN)/ruff check --fix src tests tools benchmarks

# TOPIC="forms language": these only; WRITE=1: keep the figures as the last ones.
bench: setup ## the published figures, as ratios measured in one run, against the last ones
	@tools/system-packages.sh test
	@tools/with-postgres.sh $(BIN)/python benchmarks/run_all.py $(if $(WRITE),--write) $(TOPIC)

soak: setup ## every test in a new Debian, then many more generated examples
	@tools/fresh.sh 'make demo' 'make test'
	@VETRO_TEST_EFFORT=20 tools/with-postgres.sh tools/with-rabbitmq.sh tools/with-s3.sh $(BIN)/pytest -n 2 -m "not root and not e2e and not openstack"

# ROOMS="catalog storage": these only; WRITE=1: publish the figures instead of comparing them.
coverage: $(VENV)/.installed ## what the tests of each room cover of it, against docs/coverage.md
	@$(BIN)/python tools/measure_coverage.py $(if $(WRITE),--write) $(ROOMS)

TIER ?= full
mutants: $(VENV)/.installed ## TIER=quick: whether the tests of a tier find the faults of tests/mutants.toml
	@$(BIN)/python -m tools.mutants check --tier $(TIER)

SEEDS ?= 200
simulate: $(VENV)/.installed ## SEEDS=200: the compute control plane in virtual time, against its model
	@$(BIN)/python tools/simulate.py --seeds $(SEEDS)

docs: $(VENV)/.installed ## write the generated pages of docs/
	@$(BIN)/python tools/write_reference.py docs/reference

pictures: setup ## the pictures of docs/dashboard.md, of a service that is started for them
	@$(BIN)/python -m tests.dashboard.pictures

dashboard: $(VENV)/.installed ## the web dashboard, from dashboard/ (needs the npm registry)
	@tools/dashboard.sh $(VENV)

# TEST: a file, or a file and a test as pytest names it; TIMES=50: how often.
TIMES ?= 20
repeat: $(VENV)/.installed ## TEST=... TIMES=50: a test again and again beside other work; how often it failed
	@tools/with-postgres.sh tools/with-rabbitmq.sh tools/with-s3.sh $(BIN)/python tools/repeat_test.py "$(TEST)" $(TIMES)

clean: ## remove what was built, and what interrupted runs left behind
	@$(PYTHON) tools/leftovers.py
	rm -rf dist build .pytest_cache .ruff_cache .hypothesis src/vetro/_dashboard dashboard/node_modules dashboard/.api
