# Everything runs in .venv, which is made on first use from the hash-pinned locks in requirements/ and is left alone until
# a lock changes. Works as any user, without a terminal, from any folder.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# The interpreter that makes the venv: the first of these that is 3.11 or newer (make PYTHON=… names another).
PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,\
    $(if $(shell $(p) -c 'import sys; print("yes" if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(p))))

.PHONY: help
help: ## list what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## install what a user gets, replay real workflow runs, then run some for real on a live cluster
	@tools/venv.sh base "$(PYTHON)"
	$(BIN)/stowplan demo
	if [[ $$(id -u) == 0 ]]; then
	    $(MAKE) demo-live
	else
	    echo "not shown on a live cluster: that takes root, to build and run one on this machine (make demo-live)"
	fi

.PHONY: demo-live
demo-live: ## real workflows in a real cluster under kube-scheduler and Stowplan (builds Kubernetes the first time: 15 minutes)
	@tools/system_packages.sh
	tools/venv.sh dev "$(PYTHON)"
	$(BIN)/python -m testbed programs
	$(BIN)/python -m testbed images
	$(BIN)/python -m bench.live.demo

.PHONY: test
test: ## everything that is checked: lint, types, import contracts, tests with coverage
	@tools/system_packages.sh
	tools/venv.sh learn "$(PYTHON)"
	# The first time, what the test cluster is made of is built beside all that does not need it.
	{ $(BIN)/python -m testbed programs && $(BIN)/python -m testbed images; } &
	parts=$$!
	$(MAKE) lint
	# Compile the simulator once, before tests in several processes would each do it.
	scratch=$$(mktemp -d)
	trap 'rm -rf "$$scratch"' EXIT
	$(BIN)/stowplan simulate --cluster examples/clusters/laptop.yaml --workload examples/workloads/variant-calling.yaml \
	    --policy kube-scheduler --seeds 1 --processes 1 --out "$$scratch/out" > /dev/null
	$(BIN)/python -m pytest -n 2 -m "not cluster" --cov --cov-report=
	wait $$parts || echo "not all parts of the test cluster are made; the tests that need them say so"
	$(BIN)/python -m pytest -m cluster --cov --cov-append --cov-report=term

.PHONY: cluster
cluster: ## bring a test cluster up (CLUSTER=name UP="--real 2 --fake 100"): eval "$(make cluster)"
	@tools/system_packages.sh >&2
	tools/venv.sh dev "$(PYTHON)" >&2
	$(BIN)/python -m testbed programs >&2
	$(BIN)/python -m testbed up $(if $(CLUSTER),--name $(CLUSTER)) $(UP)

.PHONY: cluster-down
cluster-down: ## take a test cluster away, wholly (CLUSTER=name, or UP=--all for all)
	@$(BIN)/python -m testbed down $(if $(CLUSTER),--name $(CLUSTER)) $(UP)

.PHONY: programs
programs: ## build the programs of the test cluster now (12 minutes the first time)
	@tools/venv.sh dev "$(PYTHON)"
	$(BIN)/python -m testbed programs

.PHONY: lint
lint: ## lint, format, types and import contracts only
	@tools/venv.sh learn "$(PYTHON)"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

.PHONY: bench
bench: ## measure against the peers, check the limits in bench/limits.toml, rewrite docs/BENCHMARKS.md
	@tools/system_packages.sh
	tools/venv.sh learn "$(PYTHON)"
	$(BIN)/python -m bench $(BENCH)
	$(BIN)/python -m bench --docs

.PHONY: train-smoke
train-smoke: ## train for a few minutes, and see that what comes out beats random placement
	@tools/venv.sh learn "$(PYTHON)"
	$(BIN)/python tools/train_smoke.py $(if $(OUT),--out $(OUT))

.PHONY: lock
lock: ## resolve the locks in requirements/ anew from pyproject.toml
	@tools/venv.sh dev "$(PYTHON)"
	tools/lock.sh $(BIN)/uv

.PHONY: clean
clean: ## remove what was made here (the venv, caches, results in out/)
	@rm -rf $(VENV) out build dist htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +
