# Every target does its own set-up; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Runs a command and says on standard error what is being done and for how long.
STAGE := . hack/testenv/stage.sh; stage

TESTFLAGS ?= -race -timeout=25m
MODULES := . $(patsubst %/go.mod,%,$(wildcard hack/*/go.mod hack/tools/*/go.mod))
KUSTOMIZATIONS := $(patsubst %/kustomization.yaml,%,$(wildcard config/*/kustomization.yaml))

# What tests, demo and benchmark need on the machine: PostgreSQL's programs, etcd, kube-apiserver and kubectl.
WITH_SERVERS := hack/testenv/postgres.sh >/dev/null; \
	KUBEBUILDER_ASSETS=$$(hack/testenv/kube-assets.sh); export KUBEBUILDER_ASSETS;

##@ For everybody

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Watch the operator start a worker function exactly once, against real servers; ends by itself.
	@$(WITH_SERVERS) $(STAGE) "building the demo" go build -o bin/demo ./hack/demo; exec bin/demo

.PHONY: run
run: ## Start the same servers, leave them running and say how to play with them; Ctrl-C ends it.
	@$(WITH_SERVERS) $(STAGE) "building the demo" go build -o bin/demo ./hack/demo; exec bin/demo --keep

.PHONY: bench
bench: ## Measure how fast workers are replaced, beside the old behaviour.
	@$(WITH_SERVERS) $(STAGE) "building the benchmark" go build -o bin/bench ./hack/bench; exec bin/bench

##@ Development

.PHONY: build
build: ## Build the operator: bin/manager.
	go build -o bin/manager .

.PHONY: test
test: ## Run all tests against a real PostgreSQL and a real API server.
	@$(WITH_SERVERS) DENO=$$(hack/testenv/deno.sh); export DENO; \
	$(STAGE) "go test $(TESTFLAGS) ./..." go test $(TESTFLAGS) ./...

.PHONY: generate
generate: bin/controller-gen ## Generate Go code: deep copies of the API types.
	bin/controller-gen object paths=./api/...

.PHONY: manifests
manifests: bin/controller-gen ## Generate the custom resource definition and the operator's permissions.
	bin/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	bin/controller-gen rbac:roleName=pgflow-operator paths=./controllers/... output:rbac:dir=config/rbac

.PHONY: fmt
fmt: bin/golangci-lint ## Format the code.
	bin/golangci-lint fmt

.PHONY: lint
lint: bin/golangci-lint ## Run the linters of .golangci.yml.
	@$(STAGE) "golangci-lint" bin/golangci-lint run

.PHONY: verify
verify: verify-format verify-scripts verify-generated verify-modules verify-kustomize ## Check that everything generated, formatted or tidied is up to date.

.PHONY: verify-format
verify-format:
	@unformatted=$$(gofmt -l $(filter-out bin,$(patsubst %/,%,$(wildcard */))) *.go); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

.PHONY: verify-scripts
verify-scripts:
	@for script in .ci/run hack/testenv/*.sh; do bash -n "$$script"; done

.PHONY: verify-generated
verify-generated: bin/controller-gen
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	bin/controller-gen object paths=./api/... output:object:dir="$$fresh/api"; \
	bin/controller-gen crd paths=./api/... output:crd:dir="$$fresh/crd"; \
	bin/controller-gen rbac:roleName=pgflow-operator paths=./controllers/... output:rbac:dir="$$fresh/rbac"; \
	stale() { echo "out of date, run make generate manifests: $$1"; exit 1; }; \
	diff -u api/v1alpha1/zz_generated.deepcopy.go "$$fresh/api/zz_generated.deepcopy.go" || stale api/v1alpha1; \
	diff -u config/crd/bases "$$fresh/crd" || stale config/crd/bases; \
	diff -u config/rbac/role.yaml "$$fresh/rbac/role.yaml" || stale config/rbac/role.yaml

.PHONY: verify-modules
verify-modules:
	@for module in $(MODULES); do \
		$(STAGE) "go mod tidy -diff in $$module" go mod tidy -C "$$module" -diff || { echo "run go mod tidy in $$module"; exit 1; }; \
	done

.PHONY: verify-kustomize
verify-kustomize:
	@assets=$$(hack/testenv/kube-assets.sh); \
	for kustomization in $(KUSTOMIZATIONS); do \
		"$$assets/kubectl" kustomize "$$kustomization" >/dev/null || { echo "$$kustomization does not build"; exit 1; }; \
	done

.PHONY: clean
clean: ## Remove what was built here; the programs in the cache outside stay.
	rm -rf bin

# The tools' versions are pinned by the modules in hack/tools.
bin/%: hack/tools/%/go.mod hack/tools/%/go.sum
	@$(STAGE) "building $*" go build -C hack/tools/$* -o "$(CURDIR)/bin/" tool
