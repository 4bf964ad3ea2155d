# Headrace: every way to run, test and measure it.  `make` alone lists the targets.
#
# Everything Python goes into .venv; a stamp file per set of packages makes the second `make` instant.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
CACHE  := .cache
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

LISTEN ?= 127.0.0.1:9092
DATA   ?= ./data
JOBS   ?= 5
SEED   ?= 1
ROUNDS ?= 50
ARGS   ?=

# tests/support/ordering.py says what begins when.
PYTEST  := $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder
SOURCES := src tests benchmarks simulation

# Some images set it.  Tests start hundreds of Pythons, and each would compile every module anew: half a second and more of a core.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test check check-format check-style check-types check-tests coverage lint torture alerts bench bench-cluster bench-spark bench-gateway bench-queues bench-versions bench-peers charts compat-go compat-java demo docs package references simulate simulate-long clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: $(STAMPS)/run ## Serve on 127.0.0.1:9092 with the data in ./data (LISTEN=, DATA=, ARGS=)
	@$(BIN)/headrace serve --listen $(LISTEN) --data $(DATA) $(ARGS)

# Tests of real processes may be tried again, three in a run at most, and are listed in the end: see tests/support/second_tries.py.
test: $(STAMPS)/test $(STAMPS)/spark $(STAMPS)/debian $(STAMPS)/node $(STAMPS)/classes ## Every test
	@$(PYTEST) -rR $(ARGS)

check: $(STAMPS)/test $(STAMPS)/spark ## Format, lint, types, architecture and the quicker unit tests, beside each other: a minute and a half
	@$(MAKE) --no-print-directory --jobs check-format check-style check-types check-tests

check-format:
	@$(BIN)/ruff format --check $(SOURCES)

check-style:
	@$(BIN)/ruff check $(SOURCES)

check-types:
	@$(BIN)/mypy

check-tests:
	@$(BIN)/python -m pytest -n 2 --dist loadgroup tests/architecture tests/unit -m 'not slow and not spark and not etcd' $(ARGS)

# Rooms whose work is to answer requests are reached by tests that make some.
COVERED = $(wildcard $(patsubst %,tests/integration/test_%*.py,gateway_ schema_registry sdk_admin sdk_async sdk_dead_letters sdk_push))

# What measures its own time is left out: a tracer makes everything slower.
coverage: $(STAMPS)/test ## How much of the source the tests in one process reach: fails below the floor in pyproject.toml, and raises it
	@$(BIN)/coverage run -m pytest --timeout 600 tests/unit tests/scenarios $(COVERED) -m 'not slow and not spark and not etcd' -k 'not busy_for_long and not serve_others_meanwhile and not others_are_served' $(ARGS)
	@$(BIN)/coverage report
	@$(BIN)/python .ci/coverage-floor $$($(BIN)/coverage report --format=total --fail-under=0)

lint: $(STAMPS)/test $(STAMPS)/spark ## Format, lint and types
	@$(MAKE) --no-print-directory --jobs check-format check-style check-types

torture: $(STAMPS)/test $(STAMPS)/spark $(STAMPS)/debian ## Kill, stop, cut off and fill up brokers under load again and again (ROUNDS=50)
	@HEADRACE_TORTURE_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/integration tests/compat -k 'kill or crash or come_and_go' --timeout 7200 $(ARGS)
	@HEADRACE_TORTURE_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/integration/test_handshake_flood.py -s $(ARGS)
	@HEADRACE_TORTURE_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/cluster/test_torture.py -s --timeout 14400 $(ARGS)
	@HEADRACE_TORTURE_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/cluster/test_gateway_torture.py -s --timeout 14400 $(ARGS)
	@HEADRACE_OPENAPI_CASES=100 $(BIN)/python -m pytest tests/integration/test_gateway_openapi_cases.py --timeout 3600 $(ARGS)
	@HEADRACE_TORTURE_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/spark/test_spark_torture.py tests/spark/test_files_under_fire.py tests/spark/test_exactly_once_under_fire.py $(ARGS)

alerts: $(STAMPS)/test $(STAMPS)/spark $(STAMPS)/debian ## Make the trouble of every alert, and see a real Prometheus fire and clear it: minutes
	@HEADRACE_TEST_ALERTS=1 $(BIN)/python -m pytest tests/cluster/test_alerts.py $(ARGS)

bench: $(STAMPS)/test $(STAMPS)/debian ## Figures of the broker, the SDK and a cluster of three, as tables (ARGS=--quick for a short run)
	@$(BIN)/python -m benchmarks.broker $(filter --quick,$(ARGS))
	@$(BIN)/python -m benchmarks.sdk $(filter --quick,$(ARGS))
	@$(BIN)/python -m benchmarks.security $(filter --quick,$(ARGS))
	@$(BIN)/python -m benchmarks.cluster $(filter --quick,$(ARGS))

bench-cluster: $(STAMPS)/test $(STAMPS)/debian ## Only those of a cluster (ARGS='--quick --only failover --move-gib 1')
	@$(BIN)/python -m benchmarks.cluster $(ARGS)

bench-spark: $(STAMPS)/test $(STAMPS)/spark ## Figures of the Spark source and sink
	@$(BIN)/python -m benchmarks.spark $(ARGS)

bench-gateway: $(STAMPS)/test ## Figures of the gateway: REST, NDJSON, events, webhooks (ARGS='--quick --only webhooks')
	@$(BIN)/python -m benchmarks.gateway $(ARGS)

bench-versions: $(STAMPS)/test ## This checkout's costs beside another's, in turns: OTHER=its root, with a .venv (ARGS='--only start --rounds 9')
	@$(BIN)/python -m benchmarks.versions $(OTHER) $(ARGS)

bench-queues: $(STAMPS)/test $(STAMPS)/queue-peers ## Figures of queues, beside Redis and RabbitMQ where Debian has them (ARGS='--quick --only delayed')
	@$(BIN)/python -m benchmarks.queues $(ARGS)

bench-peers: $(STAMPS)/test ## The broker's figures beside another broker's: PEER=host:port
	@$(BIN)/python -m benchmarks.broker $(if $(PEER),--peer $(PEER)) $(ARGS)

compat-java: $(STAMPS)/test ## The official Java client and Kafka's tools, and its dump tool on our segment files (needs Maven and a JDK)
	@$(BIN)/python -m tests.compat.java $(ARGS)

compat-go: $(STAMPS)/test ## Go's clients on heavily compacted topics, signed in, in share groups, of schemas (needs Go, and its module proxy once)
	@cd tests/compat/go && go build -o $(CURDIR)/.cache/compat-go/readers . && \
		for each in secured sharing registry; do go build -o $(CURDIR)/.cache/compat-go/$$each ./$$each || exit 1; done
	@$(BIN)/python -m pytest tests/compat/test_compacted.py tests/compat/security/test_franz_go.py tests/compat/test_share_groups_franz_go.py tests/compat/test_schema_registry_franz_go.py $(ARGS)

charts: $(STAMPS)/test ## What the Helm chart renders, against Kubernetes' own schemas (needs Go, and its module proxy once)
	@GOBIN=$(CURDIR)/$(CACHE)/helm go install helm.sh/helm/v3/cmd/helm@v3.16.4
	@$(PIP) kubernetes-validate
	@HEADRACE_TEST_HELM=$(CURDIR)/$(CACHE)/helm/helm $(BIN)/python -m pytest tests/deployment $(ARGS)

demo: $(STAMPS)/run $(STAMPS)/spark ## A broker, a generator of events, a Spark pipeline and a live view
	@$(BIN)/headrace demo $(ARGS)

references: $(STAMPS)/run ## Write the generated pages of docs/ (settings, metrics, runbook, wire, permissions, commands) and the picture anew
	@$(BIN)/python docs/generate.py

docs: $(STAMPS)/docs references ## Build the documentation site into ./site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir site

package: $(STAMPS)/docs ## Build wheel and sdist into ./dist, and try each in a fresh environment
	@sh .ci/package $(BIN)/python

simulate: $(STAMPS)/test ## Replay one simulated cluster and tell its story: SEED=7 (ARGS=--all: what clients did, too; ARGS="--about events-0")
	@$(BIN)/python -m simulation --seed $(SEED) $(ARGS)

simulate-long: $(STAMPS)/test ## Simulate seed after seed, on all cores, from SEED on, until stopped; those of make test come first
	@$(BIN)/python -m simulation --forever --keep-going --jobs $$(nproc) --seed $(SEED) $(ARGS)

clean: ## Remove what was built, not ./data
	rm -rf $(VENV) $(CACHE) build dist site .mypy_cache .ruff_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@PYTHON=$(PYTHON) sh .ci/virtual-environment $(VENV)

$(STAMPS)/run: $(BIN)/python pyproject.toml constraints.txt
	@$(PIP) -e .
	@mkdir -p $(@D) && touch $@

$(STAMPS)/test: $(STAMPS)/run
	@$(PIP) -e '.[test,check]'
	@touch $@

$(STAMPS)/spark: $(STAMPS)/run
	@$(PIP) -e '.[spark]'
	@touch $@

$(STAMPS)/docs: $(STAMPS)/run
	@$(PIP) -e '.[docs]'
	@touch $@

# What a Java of Spark loads at its start, ready to be mapped: tests start fifteen of them, and do without where it cannot be made.
$(STAMPS)/classes: tests/spark/java_archive.py | $(STAMPS)/spark $(STAMPS)/debian
	@$(BIN)/python -m tests.spark.java_archive 2>$(STAMPS)/classes.log || tail -1 $(STAMPS)/classes.log
	@touch $@

$(STAMPS)/debian: .ci/debian-packages | $(STAMPS)/run
	@sh .ci/debian-packages kcat etcd-server iproute2 openjdk-17-jre-headless prometheus prometheus-alertmanager chromium
	@touch $@

# Only for bench-queues: the servers through apt where it may, and their clients.
$(STAMPS)/queue-peers: .ci/debian-packages | $(STAMPS)/test
	@sh .ci/debian-packages redis-server rabbitmq-server
	@$(PIP) redis pika
	@touch $@

$(STAMPS)/node: tests/compat/kafkajs/package.json .ci/node-packages | $(STAMPS)/run
	@sh .ci/node-packages tests/compat/kafkajs/package.json $(CACHE)/kafkajs
	@touch $@
