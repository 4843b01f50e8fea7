# mulligan: `make` lists the targets.

SHELL := /bin/bash
# tests start hundreds of processes, each of which would compile everything again
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# stores that a run must test, and the number of test processes, of which some always wait
STORES ?= memory,sqlite,redis,postgres,mongo
JOBS ?= 4
ARGS ?=
SERVERS = $(BIN)/python -m tests.databases run
DECISIONS = src/mulligan/core/*,src/mulligan/stores/rules/*
PYTEST = pytest -n $(JOBS) --dist worksteal
BENCH = $(SERVERS) --stores redis,postgres,mongo -- $(BIN)/python -m benchmarks.compare

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make test ARGS='-k claim'      passes arguments to pytest (no coverage gate then)"
	@echo "  make test STORES=memory,redis  starts and requires only these stores"

setup: $(STAMP) ## create .venv with everything pinned, and the project in it

$(STAMP): requirements/dev.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## see it work: jobs that fail, retry and succeed, on SQLite
	$(BIN)/mulligan demo

test: setup ## run the tests on real servers, with the coverage gates
	@rm -f .coverage .coverage.*
	$(SERVERS) --stores $(STORES) -- $(BIN)/coverage run -m $(PYTEST) -m 'not prove' $(ARGS)
ifeq ($(strip $(ARGS)),)
	@$(BIN)/coverage combine --quiet
	@echo "coverage of core and of the stores' rules: every line and branch"
	$(BIN)/coverage report --include='$(DECISIONS)' --fail-under=100
	@echo "coverage of the rest: at least 90 %"
	$(BIN)/coverage report --omit='$(DECISIONS)' --fail-under=90
endif

test-fast: JOBS = 3
test-fast: setup ## run the quick tests on memory and SQLite: no servers, few processes
	$(SERVERS) --stores memory,sqlite -- $(BIN)/python -m $(PYTEST) -m 'not prove and not slow' \
	  -k 'not redis and not postgres and not mongo' $(ARGS)

prove: .venv/.docs ## run the long proofs: chaos, simulated days, failpoints, the dashboard in a browser
	$(SERVERS) --stores $(STORES) -- $(BIN)/python -m $(PYTEST) -m prove $(ARGS)

fresh: ## run the README's commands on a bare Debian, made by debootstrap (needs root)
	tests/fresh/run

dist: setup ## build wheel and sdist, and use each in an empty environment
	$(BIN)/python -m tests.dist

matrix: setup ## run a part of the tests with every version that is claimed, and write docs/reference/versions.md
	$(BIN)/python -m tests.matrix $(ARGS)

check: setup ## lint, format, types, layers and spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src docs examples benchmarks deploy tests *.md

format: setup ## let ruff rewrite what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

chaos: setup ## kill, stop, cut off and starve real processes and servers, on every store
	@for store in sqlite redis postgres mongo; do \
	  $(BIN)/python -m tests.chaos --store $$store --seconds 60 $(ARGS) || exit 1; done

chaos-long: setup ## the same for ten minutes on each store
	@for store in sqlite redis postgres mongo; do \
	  $(BIN)/python -m tests.chaos --store $$store --seconds 600 --calm 60 $(ARGS) || exit 1; done

failpoints: setup ## kill a process at every step it takes, on every store
	@for store in sqlite redis postgres mongo; do \
	  $(BIN)/python -m tests.failpoints --store $$store $(ARGS) || exit 1; done

dst: setup ## live through 100,000 simulated days, with faults
	$(BIN)/python -m tests.dst --seeds 100000 --jobs $(JOBS) $(ARGS)

explore: setup ## compare the stores with memory by new commands: ARGS='--minutes 30'
	$(BIN)/python -m tests.databases run --stores $(STORES) -- $(BIN)/python -m tests.contract.explore $(ARGS)

mutation: setup ## change the code a little, and see whether a test notices
	$(BIN)/python -m tests.mutation $(ARGS)

docs: .venv/.docs ## build the site into site/, strictly, and check that it is true: examples, links
	$(BIN)/python docs/prose.py
	$(BIN)/python docs/build.py -q -E -W --keep-going -j auto -b html -d .venv/doctrees docs site
	$(BIN)/python -m pytest -q tests/test_docs.py tests/cli -k 'docs or documented'
	@echo "open site/index.html"

.venv/.docs: $(STAMP) requirements/docs.txt
	$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

charts: setup ## draw the pictures of the documentation, from simulations
	$(BIN)/python docs/images/diagrams.py
	$(BIN)/mulligan simulate retry-storm --policy fifo --policy retry-first --policy 'weighted(retry=0.2)' \
	  --policy balanced --policy 'capped(4)' --policy separate --chart docs/images/retry-storm.svg
	$(BIN)/mulligan simulate regional-outage --chart docs/images/regional-outage.svg
	$(BIN)/mulligan simulate black-hole --breaker both --chart docs/images/black-hole.svg
	$(BIN)/mulligan simulate provider-429 --limits both --chart docs/images/provider-429.svg
	$(BIN)/mulligan simulate noisy-tenant --fairness both --chart docs/images/noisy-tenant.svg
	$(BIN)/mulligan simulate timeline-3 --policy retry-first --policy fifo --chart docs/images/timeline-3.svg

transcripts: setup ## run the commands of docs/ anew, and write down what they print
	$(SERVERS) --stores redis,postgres -- $(BIN)/python -m tests.tutorial.ran $(ARGS)

screenshots: setup ## take the pictures of the dashboard that docs/ shows, in Debian's Chromium
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

bench: setup ## measure mulligan on each store, in a few minutes
	$(BENCH) --peers mulligan --only throughput,plain,two,latency,storm,idle,raw --rounds 1 $(ARGS)

bench-peers: setup ## measure mulligan beside its peers; installs them in ~/.cache/mulligan/peers
	$(BENCH) $(ARGS)

bench-producers: setup ## measure enqueues and a web server's requests beside peers
	$(SERVERS) --stores redis,postgres -- $(BIN)/python -m benchmarks.producers $(ARGS)

bench-results: setup ## measure how long after its commit a result reaches who waits for it
	$(SERVERS) --stores redis,postgres,mongo -- $(BIN)/python -m benchmarks.result_wait $(ARGS)

bench-progress: setup ## measure what 100 jobs that report progress cost their worker
	$(SERVERS) --stores redis,postgres -- $(BIN)/python -m benchmarks.progress $(ARGS)

bench-processes: setup ## measure what a second worker process adds to jobs of 200 µs of Python
	$(SERVERS) --stores redis -- $(BIN)/python -m benchmarks.processes $(ARGS)

bench-shards: setup ## measure what a job costs in CPU, by part, over 1, 2 and 4 shards
	$(BIN)/python -m benchmarks.shards --stores redis,postgres $(ARGS)

bench-limits: setup ## measure what limits and fairness keys cost, and whether they hold
	$(SERVERS) --stores redis,postgres,mongo -- $(BIN)/python -m benchmarks.limits $(ARGS)

bench-limiters: setup ## measure limits beside the limiters of peers, and a provider that says 429
	$(SERVERS) --stores redis,postgres -- $(BIN)/python -m benchmarks.limiters $(ARGS)
	$(BIN)/python -m benchmarks.provider

bench-pools: setup ## measure work in child processes beside peers, and coroutines beside it
	$(SERVERS) --stores redis -- $(BIN)/python -m benchmarks.pools $(ARGS)

bench-docs: setup ## write docs/proof/benchmarks.md from benchmarks/results/reference.json
	$(BIN)/python -m benchmarks.report

audit: .venv-audit/bin/pip-audit ## ask for known weaknesses in what is pinned (needs the network)
	.venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/dev.txt

sbom: setup .venv-audit/bin/pip-audit ## write what is installed as CycloneDX, to sbom.json
	.venv-audit/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml \
	  --output-format JSON --output-file sbom.json

.venv-audit/bin/pip-audit: requirements/audit.txt
	@test -x .venv-audit/bin/python || $(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install -qq --require-hashes -r requirements/audit.txt
	@touch $@

lock: ## pin every requirement anew, with hashes (needs uv; installs it into .venv-lock)
	@test -x .venv-lock/bin/uv || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/python -m pip install -qq uv; }
	.venv-lock/bin/uv pip compile pyproject.toml --quiet --all-extras --group dev --universal --upgrade \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --custom-compile-command 'make lock' --output-file requirements/dev.txt
	.venv-lock/bin/uv pip compile pyproject.toml --quiet --group docs --constraint requirements/dev.txt --universal \
	  --upgrade --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --custom-compile-command 'make lock' --output-file requirements/docs.txt
	.venv-lock/bin/uv pip compile requirements/audit.in --quiet --universal --upgrade --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --custom-compile-command 'make lock' --output-file requirements/audit.txt

clean: ## remove everything that the other targets made
	rm -rf .venv .venv-lock .venv-audit sbom.json .coverage .coverage.* htmlcov dist build site
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
