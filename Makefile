# The commands of this project. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .tools/bin/golangci-lint-$(GOLANGCI_VERSION)
FUZZTIME ?= 30s
E2E_LOG := $(CURDIR)/.tools/e2e.log
NESTED := internal/e2e internal/bench examples/observability
BENCH ?= -write results.md
VERSIONS ?= 1.6.2 1.7.4 1.7.12
DURATION ?= 10m
SEED ?= 0

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools: $(GOLANGCI) ## install what the tests need: redis-server, restate-server, promtool, the linter
	@bash internal/e2e/tools.sh

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION)"
	@GOBIN=$(CURDIR)/.tools/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .tools/bin/golangci-lint $@

.PHONY: test
test: tools ## everything: vet, lint, tests with the race detector, end-to-end tests on real servers
	go vet ./...
	$(MAKE) --no-print-directory lint
	go test -race -shuffle=on ./...
	$(MAKE) --no-print-directory observability
	$(MAKE) --no-print-directory e2e

.PHONY: unit
unit: ## the tests that need nothing installed
	go test -race -shuffle=on ./...

.PHONY: e2e
e2e: ## the end-to-end tests alone, on a real redis-server and a real restate-server
	@cd internal/e2e && go vet ./...
	@cd internal/e2e && if CI=true go test -race -shuffle=on -count=1 -timeout 20m -p 1 -v ./... >$(E2E_LOG) 2>&1; \
	then grep -E '^(e2e: |ok |--- )|_test\.go:[0-9]+: ' $(E2E_LOG); \
	else cat $(E2E_LOG); exit 1; fi

.PHONY: chaos
chaos: ## faults for DURATION (default 10m) by SEED (default: a new one), and failovers and slots for a quarter of it each
	@cd internal/e2e && if CI=true go test -race -count=1 -timeout 0 -v ./chaos -chaos.duration $(DURATION) -chaos.seed $(SEED) >$(E2E_LOG) 2>&1; \
	then grep -E '^(e2e: |ok |--- )|_test\.go:[0-9]+: ' $(E2E_LOG); \
	else cat $(E2E_LOG); exit 1; fi

.PHONY: observability
observability: ## the tests of the alerts, and an outage of examples/observability as Prometheus sees it
	@cd examples/observability && go vet ./... && go test -race -shuffle=on -count=1 -timeout 3m ./...

.PHONY: conformance
conformance: ## the recorded answers against each restate-server of VERSIONS, one after the other
	@for version in $(VERSIONS); do \
	  RESTATE_VERSION=$$version bash internal/e2e/tools.sh >/dev/null; \
	  if (cd internal/e2e && RESTATE_VERSION=$$version CI=true go test -race -count=1 -v ./conformance) >$(E2E_LOG) 2>&1; \
	  then grep -E '^(e2e: |ok )|_test\.go:[0-9]+: ' $(E2E_LOG); else cat $(E2E_LOG); exit 1; fi; \
	done

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint, with every linter that .golangci.yml does not argue away
	$(GOLANGCI) run ./...
	@for module in $(NESTED); do (cd $$module && $(CURDIR)/$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: format
format: $(GOLANGCI) ## format the code as lint wants it
	$(GOLANGCI) fmt ./...

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (default 30s)
	@for package in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

.PHONY: bench
bench: tools ## measure against the baselines on real servers: the table in internal/bench/results.md; BENCH has the flags
	@cd internal/bench && go run . $(BENCH)

.PHONY: bench-smoke
bench-smoke: tools ## the same in a minute, judging nothing but that no start is lost or sent twice
	@cd internal/bench && go vet ./... && go test -race -shuffle=on ./...
	@cd internal/bench && go run . -rounds 2 -scale 0.05 -judge=false

.PHONY: microbench
microbench: ## Go's own benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: demo
demo: ## the quickstart: a stream, an outage, and nothing lost
	go run ./examples/quickstart
