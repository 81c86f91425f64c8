# Two commands matter: `make demo` and `make test`. The rest is for working on it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)

# Every build without the race detector is one kind, so that a dependency is
# compiled once for the programs, vet, the linter and the programs of tests.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
PURE := CGO_ENABLED=0

BUILDINFO := github.com/toolhaven/toolhaven/internal/buildinfo
LDFLAGS := -s -w -X $(BUILDINFO).version=$(VERSION) -X $(BUILDINFO).commit=$(COMMIT) -X $(BUILDINFO).buildDate=$(DATE)
# Without grpc's trace pages the linker can drop unused methods: a sixth of thv.
BUILD   := $(PURE) go build -tags grpcnotrace -ldflags '$(LDFLAGS)'

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# The race detector needs a C compiler. `make test` installs one; without one, `make
# test-unit` runs without the race detector and prints that.
RACE := $(if $(shell command -v gcc || command -v clang),-race)

# How many packages are tested at a time: many tests wait more than they compute.
TESTING ?= 4

# `make lint` vets all tests too, once and not for each kind of build. Nothing debugs
# the test binaries, and without DWARF the linker has a quarter less to do.
GOTEST := -vet=off -ldflags=-w

# The packages that take longest are tested first, beside all others.
LONGEST := ./test/registry ./internal/build ./test/corners ./internal/registry/store/postgres ./internal/gateway ./internal/gateway/backend

# Real registry files beside the checkout. Without them a test is skipped.
export THV_TEST_REGISTRY_DATA ?= $(abspath $(wildcard ../shared/data))

FUZZTIME ?= 10s
LINT     := bin/golangci-lint

.PHONY: build build-all images packages charts compiled cross generate generate-api generated demo test test-unit lint fuzz bench conformance hostile metrics clean keycloak-test minio-test podman-test cluster-test help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: generate ## Build the programs into bin/
	@mkdir -p bin
	$(BUILD) -o bin/thv ./cmd/thv
	$(BUILD) -o bin/thv-registry ./cmd/thv-registry
	$(BUILD) -o bin/thv-operator ./cmd/thv-operator

ARCHES ?= amd64 arm64
comma  := ,
space  := $(subst ,, )

# The images of a cluster. PUSH=registry.example/toolhaven also pushes them.
images: generate ## Make the images of thv and thv-operator for Linux into dist/images/
	@for arch in $(ARCHES); do \
		echo "building the programs for linux/$$arch"; mkdir -p "dist/linux-$$arch"; \
		for program in thv-guest thv thv-operator; do \
			GOOS=linux GOARCH=$$arch $(BUILD) -o "dist/linux-$$arch/$$program" "./cmd/$$program" || exit 1; \
		done; \
	done
	go run ./tools/images -programs dist -arches '$(subst $(space),$(comma),$(strip $(ARCHES)))' -out dist/images -version '$(VERSION)' -created '$(DATE)' $(if $(PUSH),-push '$(PUSH)')

CHARTS := deploy/charts/toolhaven-operator-crds deploy/charts/toolhaven-operator

packages: ## Make Helm charts and install.yaml of VERSION into dist/packages/
	cd tools/charts && $(PURE) go run . package -version '$(VERSION)' -out '$(CURDIR)/dist/packages' $(addprefix $(CURDIR)/,$(CHARTS))

# UPDATE=1 writes what they give into deploy/charts/testdata.
charts: ## Check the Helm charts of deploy/charts
	@cd tools/charts && $(PURE) go vet . && $(PURE) go test . $(if $(UPDATE),-update)

generate:
	@go generate ./internal/guest/program

CRDS := bin/controller-gen

generate-api: $(CRDS) ## Make deep copies, deploy/crds and docs/kubernetes-api.md from the types of api/v1beta1
	$(CRDS) object crd paths=./api/... paths=./internal/externalauth output:crd:dir=deploy/crds
	go run ./tools/apidoc > docs/kubernetes-api.md.new && mv docs/kubernetes-api.md.new docs/kubernetes-api.md

# What generate-api writes.
GENERATED := api/v1beta1/zz_generated.deepcopy.go internal/externalauth/zz_generated.deepcopy.go deploy/crds/toolhaven.dev_*.yaml docs/kubernetes-api.md

generated: $(CRDS) # fails when they are not current
	@before=$$(cat $(GENERATED) | cksum); $(MAKE) --no-print-directory generate-api >/dev/null; \
	if [ "$$before" != "$$(cat $(GENERATED) | cksum)" ]; then echo "what is generated from api/v1beta1 was not current; it is now: commit it"; exit 1; fi

$(CRDS): tools/generate/go.mod tools/generate/go.sum
	@mkdir -p bin
	cd tools/generate && $(PURE) go build -o ../../$(CRDS) sigs.k8s.io/controller-tools/cmd/controller-gen

build-all: generate ## Build for Linux, macOS and Windows into dist/
	@mkdir -p dist
	@for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/}; suffix=; \
		if [ "$$os" = windows ]; then suffix=.exe; fi; \
		echo "dist/thv-$$os-$$arch$$suffix"; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -o "dist/thv-$$os-$$arch$$suffix" ./cmd/thv; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -o "dist/thv-registry-$$os-$$arch$$suffix" ./cmd/thv-registry; \
	done

# One of each other kind, and its tests, so that a file for one system does not break
# another. The operator runs in clusters only, and its dependencies take minutes to compile.
cross: generate
	@for platform in darwin/arm64 windows/amd64; do \
		echo "building for $$platform"; \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} $(PURE); \
		go build -o /dev/null ./cmd/thv && go build -o /dev/null ./cmd/thv-registry && \
		go vet $$(go list ./internal/... ./cmd/... | grep -v operator) || exit 1; \
	done

demo: ## Run a real tool server in a container, use it, and remove it
	@test/demo.sh

export THV_TIMES := $(abspath test/.cache/times)

test: ## Install what the tests need and run all of them
	@mkdir -p test/.cache && rm -f '$(THV_TIMES)'
	@test/setup/all.sh $(MAKE) --no-print-directory compiled
	@trap 'test/setup/podman.sh stop' EXIT; \
	THV_TEST_PODMAN=$$(test/setup/podman.sh); export THV_TEST_PODMAN; \
	THV_TEST_ROOTLESS=$$(test/setup/podman.sh rootless); export THV_TEST_ROOTLESS; \
	go run ./test/report -times '$(THV_TIMES)' \
		-- -race $(GOTEST) -p $(TESTING) -tags=integration -timeout=30m $(LONGEST) $$(go list -tags integration ./... | grep -v /test/scenario) \
		-- -race $(GOTEST) -tags=hostile -count=1 -timeout=20m ./test/hostile \
		-- $(PURE) $(GOTEST) -tags=integration -count=1 -timeout=30m ./test/scenario \
		--run $(PURE) go run ./test/conformance -thv bin/thv

# What computes while the set-up waits for the network.
compiled:
	@. test/setup/lib.sh; \
	for target in build lint cross; do timed "make $$target" $(MAKE) --no-print-directory $$target; done

keycloak-test: build ## Fetch Keycloak and sign in at it: 160 MB, so it is not part of `make test`
	@test/setup/keycloak.sh
	go test -tags integration,keycloak -count=1 -timeout 20m -v -run '^TestKeycloak$$' ./internal/authserver/upstream ./test/scenario

minio-test: ## Build MinIO and call it as awsSts does: five minutes, so it is not part of `make test`
	@test/setup/minio.sh
	go test -tags integration,minio -count=1 -run '^TestMinIO$$' ./internal/credential/aws

test-unit: generate ## Run the tests that need nothing installed
	@$(if $(RACE),,echo "no C compiler: the race detector is off" >&2)
	go test $(RACE) -p $(TESTING) ./...

# The commits since this one follow the rule of CONTRIBUTING.md. A clone that does
# not have it is not checked.
RULED := b94d9b3fc6070bb20a7c6d194242ac98c8b53974

lint: generate generated charts $(LINT) ## Check format, vet, golangci-lint, commit subjects, and that nothing built is tracked
	@large=$$(git ls-files -z | xargs -0 stat -c '%s %n' 2>/dev/null | awk '$$1 > 1048576 { print $$2 }'); \
	if [ -n "$$large" ]; then echo "tracked files over 1 MB; built files do not belong here:"; echo "$$large"; exit 1; fi
	@if git cat-file -e $(RULED)^{commit} 2>/dev/null; then \
		long=$$(git log --no-merges --format='%h %s' $(RULED)..HEAD | awk 'length($$0) > length($$1) + 1 + 72'); \
		if [ -n "$$long" ]; then echo "commit subjects over 72 characters:"; echo "$$long"; exit 1; fi; fi
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(PURE) go vet ./...
	$(PURE) $(LINT) run ./... # vets what has build tags

# From source, at the version that tools/lint/go.mod pins: minutes the first time.
$(LINT): tools/lint/go.mod tools/lint/go.sum
	@mkdir -p bin
	cd tools/lint && $(PURE) go build -o ../../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

fuzz: generate ## Run every fuzz target for FUZZTIME each
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd internal test bench | sort | while IFS=: read -r file line what; do \
		package=./$$(dirname "$$file") target=$${what#func }; \
		echo "== $$package $$target"; \
		tags=$$(sed -n 's,^//go:build \([a-z]*\)$$,\1,p' "$$file"); \
		go test -tags "$$tags" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$package" < /dev/null; \
	done

bench: build ## Measure beside baselines, in one run; writes bench/last.json
	@test/setup/docker.sh
	go run ./bench -thv bin/thv -out bench/last.json

conformance: build ## Run the official MCP suite; CELL=part of a name, REPEAT=times; writes docs/conformance.md
	@test/setup/docker.sh
	@test/setup/conformance.sh
	go run ./test/conformance -thv bin/thv -cell '$(CELL)' -repeat $(or $(REPEAT),1)

# Apart from `make test`: building all of Kubernetes takes a quarter of an hour of a processor
# the first time. RUN=a test's name runs that only.
cluster-test: ARCHES := $(shell go env GOARCH)
cluster-test: ## Run the operator and its pods on a real cluster of one node
	@test/setup/cluster.sh
	@$(MAKE) --no-print-directory images ARCHES='$(ARCHES)'
	@mkdir -p dist/cluster
	$(PURE) go build -o dist/cluster/ ./tools/images ./test/servers/probe ./test/cluster/pause
	$(PURE) go test -tags cluster -count=1 -timeout 30m -v -run '$(or $(RUN),.)' $(if $(filter 0,$(shell id -u)),,-exec 'sudo -E') ./test/cluster

hostile: build ## Run the hostile server and clients against the gateway, some minutes
	go test $(RACE) -tags hostile -count=1 -timeout 20m ./test/hostile

podman-test: build ## Run all scripts about isolation, mounts and images on Podman, some minutes
	@test/setup/docker.sh
	@trap 'test/setup/podman.sh stop' EXIT; \
	THV_TEST_PODMAN=$$(test/setup/podman.sh) THV_TEST_PODMAN_MORE=1 $(PURE) go test -tags=integration -count=1 -run TestScriptsOnPodman ./test/scenario

metrics: ## Measure the code; PACKAGE=a folder, ROOT=another checkout, COMMITS=a range, WORDS=1 lists wordy comments
	@go run ./tools/metrics -root '$(or $(ROOT),.)' -commits '$(or $(COMMITS),HEAD)' $(if $(WORDS),-words) $(PACKAGE)

clean: ## Remove what was built and fetched
	rm -rf bin dist test/.cache bench/last.json internal/guest/program/bin/*.gz
