# `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Nothing here needs a C compiler.
export CGO_ENABLED := 0

# All tools are pinned in go.tools.mod and built by the go command.
TOOL := go tool -modfile=$(CURDIR)/go.tools.mod
LOCALCLUSTER := go -C hack/localcluster run .

# The version that the operator tells, and the image that install.yaml names.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMG ?= pathways-job-controller:$(VERSION)
PLATFORMS ?= linux/amd64,linux/arm64
LDFLAGS := -s -w -X main.version=$(VERSION)
CHART := charts/pathways-job
DIST := dist

##@ Everyday

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## "; print "usage: make TARGET" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-zA-Z0-9_-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: cluster-build ## Boot a local cluster, start the operator, run the samples and watch them. No images, no TPUs.
	@echo "building the operator and the demo (from nothing this takes some minutes)"
	@$(call compile,-ldflags '$(LDFLAGS)' -o bin/manager ./cmd)
	@$(call compile,-ldflags '$(LDFLAGS)' -o bin/ ./cmd/kubectl-pathways)
	@$(call compile,-o bin/demo ./hack/demo)
	@bin/demo

# compile runs go build, and tells how far it is: -v prints a line for each package.
compile = go build -v $(1) 2>&1 | awk '/^go: downloading / || !/ / { if (++n % 50 == 0) { print "   " n " packages"; fflush() }; next } { print }'

.PHONY: test
test: cluster-build ## Run every test: unit, api, controllers, chart, e2e.
	go run ./hack/layers $(foreach l,unit api controllers chart e2e,$(l)='$(test_$(l))')

.PHONY: verify
verify: generate lint ## Check that generated files are up to date, the linters are content and the tree is clean.
	@if [[ -n "$$(git status --porcelain)" ]]; then \
	  git --no-pager diff; git status --short; \
	  echo "verify: the tree is not clean: commit what is listed above ('make generate' may have changed it)"; exit 1; \
	fi; echo "verify: generated files, linters and tree are clean"

# Without -trimpath, which would compile everything anew, beside the tests' own.
.PHONY: build
build: ## Build the operator and the kubectl plugin into bin/.
	go build -ldflags '$(LDFLAGS)' -o bin/manager ./cmd
	if [[ -d cmd/kubectl-pathways ]]; then go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/kubectl-pathways; fi

##@ Code

.PHONY: generate
generate: ## Write deepcopy code, CRD, RBAC, API reference, and what the chart takes from config/.
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd/bases
	go run ./hack/crd config/crd/bases/*.yaml
	go run ./hack/apidoc config/crd/bases/pathways-job.pathways.domain_pathwaysjobs.yaml >docs/reference/api.md
	$(TOOL) controller-gen rbac:roleName=pathways-job-manager paths=./internal/... output:rbac:dir=config/rbac
	cp config/crd/bases/pathways-job.pathways.domain_pathwaysjobs.yaml $(CHART)/files/crd.yaml
	cp config/rbac/role.yaml $(CHART)/files/role.yaml
	$(TOOL) kustomize build config/admission -o $(CHART)/files/admission.yaml
	cp config/prometheus/alerts.yaml $(CHART)/files/alerts.yaml
	cp config/grafana/pathways-job.json $(CHART)/files/dashboard.json

.PHONY: fmt
fmt: ## Format the code.
	$(TOOL) golangci-lint-kube-api-linter fmt

.PHONY: lint
lint: ## Run golangci-lint with kube-api-linter. The first run builds it, which takes minutes.
	$(TOOL) golangci-lint-kube-api-linter run

##@ Tests

# Packages whose tests need a kube-apiserver, which they start themselves, and
# those that `make test` has in a layer of their own.
API_PKGS := ./api/...
CONTROLLER_PKGS := ./internal/controller/... ./internal/elastic ./internal/statuspatch ./internal/testing/...
LAYERED := /api/v1$$|/internal/controller|/internal/elastic$$|/internal/statuspatch|/internal/testing|/test/(bench|chart|e2e)
# golangci-lint vets.
GO_TEST := go test -vet=off -json -timeout=20m
GINKGO := go run github.com/onsi/ginkgo/v2/ginkgo

test_unit = $(GO_TEST) $$(go list ./... | grep -Ev "$(LAYERED)")
test_api = $(GO_TEST) $(API_PKGS)
test_controllers = $(GO_TEST) $(CONTROLLER_PKGS)
test_chart = $(GO_TEST) -count=1 ./test/chart
# A spec that fails is tried again: the machine may be shared. Ginkgo lists those that were flaky.
test_e2e = $(GINKGO) -procs=6 -tags=e2e -timeout=55m -flake-attempts=2 -poll-progress-after=2m ./test/e2e
test_crash = $(GO_TEST) -count=1 -tags=real ./test/realcluster
test_real = $(GINKGO) -procs=2 -tags=real -timeout=25m -flake-attempts=2 -poll-progress-after=3m ./test/real

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go.
	go run ./hack/layers unit='$(test_unit)'

.PHONY: test-api
test-api: cluster-build ## Run the tests of the API on a real kube-apiserver.
	go run ./hack/layers api='$(test_api)'

.PHONY: test-controllers
test-controllers: cluster-build ## Run the tests of the controllers on a real kube-apiserver.
	go run ./hack/layers controllers='$(test_controllers)'

.PHONY: test-chart
test-chart: ## Run the tests of the Helm chart and of config/.
	go run ./hack/layers chart='$(test_chart)'

.PHONY: test-e2e
test-e2e: cluster-build ## Run the end-to-end tests on a local cluster.
	go run ./hack/layers e2e='$(test_e2e)'

.PHONY: test-real
test-real: ## Run the tests on hosts with real kubelets and containers; needs root on Linux.
	go run ./hack/layers crash='$(test_crash)' real='$(test_real)'

.PHONY: bench
bench: cluster-build ## Measure speed and recovery against the budgets; writes docs/benchmarks.md.
	go test -tags=bench -timeout=60m -v -count=1 ./test/bench/...

.PHONY: soak
soak: cluster-build ## Long random runs: 100,000 simulated worlds; 50 faults with the operator killed; API server outages.
	PLAN_SEEDS=100000 go test -timeout=30m -count=1 -run=TestSimulation ./internal/elastic/plan
	go test -tags=soak -timeout=90m -v -count=1 ./test/soak

##@ Local cluster

.PHONY: cluster-build
cluster-build: ## Build the local cluster's programs. The first run takes 10 to 15 minutes on two cores.
	$(LOCALCLUSTER) build

.PHONY: cluster-up
cluster-up: ## Start the local cluster and say how to use kubectl on it.
	$(LOCALCLUSTER) up

.PHONY: cluster-down
cluster-down: ## End the local cluster.
	$(LOCALCLUSTER) down

.PHONY: real-up
real-up: ## Start a cluster of hosts with real kubelets on this machine; needs root on Linux.
	go run ./test/realcluster up

.PHONY: real-down
real-down: ## End the cluster of real hosts, in whatever state it is.
	go run ./test/realcluster down

##@ Packages

.PHONY: build-installer
build-installer: ## Render config/default to dist/install.yaml, for kubectl apply. IMG names the image.
	@mkdir -p $(DIST)
	$(TOOL) kustomize build config/default | sed 's|image: controller:latest|image: $(IMG)|' >$(DIST)/install.yaml
	@echo "wrote $(DIST)/install.yaml with image $(IMG)"

.PHONY: helm-lint
helm-lint: ## Lint the Helm chart.
	$(TOOL) helm lint --strict $(CHART)

.PHONY: helm-template
helm-template: ## Print what the Helm chart installs.
	@$(TOOL) helm template pathways-job $(CHART) --namespace pathways-job-system

.PHONY: helm-package
helm-package: ## Package the Helm chart into dist/.
	$(TOOL) helm package $(CHART) --destination dist

.PHONY: docker-build
docker-build: ## Build the image IMG for this machine.
	docker build --build-arg VERSION=$(VERSION) -t $(IMG) .

.PHONY: docker-buildx
docker-buildx: ## Build the image IMG for all PLATFORMS and push it.
	docker buildx build --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) -t $(IMG) --push .

.PHONY: clean
clean: ## Remove what was built here. The local cluster's programs stay in their cache.
	rm -rf bin dist cover.out
