# `make` alone prints this help.
.DEFAULT_GOAL := help

# The version of the programs, images and charts: 0.3.0, or between releases 0.3.0-dev+COMMIT. TAG is the tag of the
# images: a tag cannot contain `+`, so it has `_` instead, as the tags of Helm's charts do.
ifndef VERSION
VERSION := $(shell tools/version.sh)
endif
TAG := $(subst +,_,$(VERSION))
BINARY  := bin/accelerator-device-plugin

# grpcnotrace leaves out gRPC's debug page, which is not served here. The page uses the package text/template, which
# keeps the linker from removing unused methods. Without the page, the binary has 16.8 MB instead of 19.6, and most of
# the binary is resident in memory.
GO_BUILD := go build -tags grpcnotrace -trimpath

# These tools are not in go.mod: they are run at a fixed version.
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
KREW_VALIDATE := go run sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3
CONTROLLER_GEN := go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0

# The race detector needs a C compiler.
RACE := $(shell command -v $${CC:-gcc} >/dev/null 2>&1 && echo -race)

# How long each fuzz target runs in `make fuzz`.
FUZZTIME ?= 10s

.PHONY: help build build-plugin build-operator build-dra build-kubectl build-registry generate-operator test-operator lint-operator test-dra lint-dra test-kubectl lint-kubectl test-registry lint-registry bench-kubectl test-browser site test-site kubectl krew demo test test-kernel test-kubelet test-prometheus test-logging e2e soak fixtures lint deps fuzz bench bench-dra clean image chart release release-check test-release test-arm64 outdated manifests test-chart

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# There are no file dependencies: go build itself detects what is up to date, the version included.
build: build-plugin build-operator build-dra build-kubectl build-registry ## build all static binaries into bin/

build-plugin: ## build the daemon and accelerator-fpga only
	CGO_ENABLED=0 $(GO_BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

demo: build-plugin ## run the daemon on simulated cards; needs no card, no cluster, no root
	$(BINARY) demo

test: ## run every test that needs no root
	go test $(RACE) -timeout 20m ./...

test-kernel: build-plugin ## test the daemon on a real kernel with emulated cards, under qemu (STORIES=pattern, KERNEL=6.12, COUNT=1, XRT=directory)
	@KERNEL=$(KERNEL) COUNT=$(COUNT) XRT=$(XRT) test/kernel/run.sh $(BINARY) $(STORIES)

test-kubelet: build-plugin ## test the daemon against the real device managers of two kubelets (TESTS=pattern)
	@test/kubelet/run.sh $(BINARY) '$(TESTS)'

test-prometheus: build-plugin ## test metrics, alert rules and dashboard with a real Prometheus (TESTS=pattern)
	@test/prometheus/run.sh $(BINARY) '$(TESTS)'

test-logging: build-plugin ## ship a log with a real OpenTelemetry Collector: docs/logs.md
	@test/logging/run.sh $(BINARY)

e2e: image-$(shell go env GOARCH) chart ## test images and charts on a real cluster of one node, as root (STORIES=pattern, KUBERNETES=1.36, KEEP=1)
	@KEEP=$(KEEP) test/e2e/run.sh '$(VERSION)' '$(value STORIES)'

# The time and the seed of `make soak`.
HOURS ?= 2
SEED ?= 1

soak: image-$(shell go env GOARCH) chart ## random operations and faults on the cluster of make e2e, with a checker (HOURS=2, SEED=1, REPLAY=history)
	@SOAK='$(HOURS)h' SEED='$(SEED)' REPLAY='$(value REPLAY)' test/e2e/run.sh '$(VERSION)'

fixtures: build-plugin ## record the fixtures of unit tests on the kernel of test-kernel; then read `git diff` (STORIES=pattern, KERNEL=6.12, XRT=directory)
	@KERNEL=$(KERNEL) XRT=$(XRT) test/kernel/fixtures.sh $(BINARY) $(STORIES)

lint: deps ## run gofmt, go vet, staticcheck, check the allowed imports
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...

deps: ## check the allowed imports of packages
	@test/deps.sh

fuzz: ## fuzz every parser for FUZZTIME (10s)
	@test/fuzz.sh $(FUZZTIME)
	@cd operator && ../test/fuzz.sh $(FUZZTIME)
	@cd dra && ../test/fuzz.sh $(FUZZTIME)
	@cd kubectl && ../test/fuzz.sh $(FUZZTIME)
	@cd registry && ../test/fuzz.sh $(FUZZTIME)

bench: build-plugin build-dra ## measure latency, cost, memory, size for docs/measured.md (ROWS=pattern)
	@go run ./test/bench bin '$(ROWS)'

build-operator: ## build accelerator-operator only; the first build takes minutes
	cd operator && CGO_ENABLED=0 $(GO_BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o ../bin/ ./cmd/...

generate-operator: ## generate the CRDs and methods from operator/api; then read `git diff`
	cd operator && $(CONTROLLER_GEN) object crd paths=./api/... output:crd:dir=../deploy/helm/accelerator-operator/files/crds

# The directory of etcd and kube-apiserver, if make e2e has built them. If it has built several versions of Kubernetes,
# the newest one is used.
ACCELERATOR_E2E_BIN ?= $(lastword $(sort $(wildcard $(HOME)/.cache/accelerator-device-plugin/cluster-*)))

# -count=1 here and below: the test cache does not notice changed files outside the module, such as charts and documents.
test-operator: ## test the operator, and that the generated files are up to date
	cd operator && CONTROLLER_GEN='$(CONTROLLER_GEN)' ACCELERATOR_E2E_BIN='$(ACCELERATOR_E2E_BIN)' go test -count=1 $(RACE) ./...
	@test -n '$(ACCELERATOR_E2E_BIN)' || echo 'NOT RUN: TestAPIServer of operator/plugins: no etcd and kube-apiserver; make e2e builds them'

lint-operator: ## check go.mod, go vet, staticcheck, allowed imports of operator/ (make lint runs gofmt)
	cd operator && go mod tidy -diff && go vet ./... && $(STATICCHECK) ./...
	@cd operator && ! go list -deps ./... | grep -E '^b-com.com/accelerator-device-plugin/(inventory|watcher|programming|server$$)|pilebones'

build-dra: ## build accelerator-dra-driver only
	cd dra && CGO_ENABLED=0 $(GO_BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o ../bin/ ./cmd/...

# How long no device changes in `make bench-dra`.
IDLE ?= 15m

bench-dra: ## measure 200 DRA drivers at a real API server for the table of docs/dra-reference.md (IDLE=15m)
	@test -n '$(ACCELERATOR_E2E_BIN)' || { echo 'no etcd and kube-apiserver; make e2e builds them'; exit 1; }
	@cd dra && ACCELERATOR_E2E_BIN='$(ACCELERATOR_E2E_BIN)' go test -run '^$$' -bench Scale -benchtime 1x -timeout 0 ./driver -idle $(IDLE)

test-dra: ## test the DRA driver; needs no root
	cd dra && ACCELERATOR_E2E_BIN='$(ACCELERATOR_E2E_BIN)' go test -count=1 $(RACE) ./...
	@test -n '$(ACCELERATOR_E2E_BIN)' || echo 'NOT RUN: TestConfigPolicy of dra/claims, TestRights of dra/claimstatus: no etcd and kube-apiserver; make e2e builds them'

lint-dra: ## check go.mod, go vet, staticcheck, allowed imports of dra/ (make lint runs gofmt)
	cd dra && go mod tidy -diff && go vet ./... && $(STATICCHECK) ./...
	@cd dra && ! go list -deps ./... | grep -E '^b-com.com/accelerator-device-plugin/(operator|sim)'

build-kubectl: ## build kubectl-accelerator only (GOOS, GOARCH: of the machine that runs kubectl)
	cd kubectl && CGO_ENABLED=0 $(GO_BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o ../bin/ ./cmd/...

test-kubectl: ## test kubectl-accelerator; needs no root
	cd kubectl && ACCELERATOR_E2E_BIN='$(ACCELERATOR_E2E_BIN)' go test -count=1 $(RACE) ./...
	@test -n '$(ACCELERATOR_E2E_BIN)' || echo 'NOT RUN: TestRoles of kubectl: no etcd and kube-apiserver; make e2e builds them'
	@echo 'NOT RUN: TestBrowser* of kubectl: make test-browser and make test-site run them'

# Chromium for the tests of the page, such as Debian's package chromium-headless-shell.
CHROMIUM ?= $(shell command -v chromium-headless-shell || command -v chromium || command -v google-chrome)

test-browser: ## test the page of kubectl accelerator ui in Chromium (CHROMIUM=path; PICTURES=1 writes those of docs/kubectl.md)
	@test -n '$(CHROMIUM)' || { echo 'no Chromium: install the Debian package chromium-headless-shell, or set CHROMIUM to the path of another one'; exit 1; }
	cd kubectl && ACCELERATOR_CHROMIUM='$(CHROMIUM)' go test -count=1 -run TestBrowser ./cmd/... $(if $(PICTURES),-update)

# The path of the site on its server.
BASE ?= /

tools/site/node_modules/.package-lock.json: tools/site/package-lock.json
	cd tools/site && npm ci --ignore-scripts --no-audit --no-fund

site: tools/site/node_modules/.package-lock.json ## build the documentation as a site with search into dist/site, with npm (BASE=/path/)
	cd tools/site && BASE='$(BASE)' npx vitepress build

test-site: site ## test the site in Chromium, on a wide and on a narrow screen (CHROMIUM=path)
	@test -n '$(CHROMIUM)' || { echo 'no Chromium: install the Debian package chromium-headless-shell, or set CHROMIUM to the path of another one'; exit 1; }
	cd kubectl && ACCELERATOR_CHROMIUM='$(CHROMIUM)' go test -count=1 ./test/site

bench-kubectl: ## measure kubectl accelerator devices and ui with 1000 nodes at a real API server
	@test -n '$(ACCELERATOR_E2E_BIN)' || { echo 'no etcd and kube-apiserver; make e2e builds them'; exit 1; }
	@cd kubectl && ACCELERATOR_E2E_BIN='$(ACCELERATOR_E2E_BIN)' go test -run '^$$' -bench . -benchtime 1x -timeout 0 ./cmd/...

# The machines that run kubectl.
KUBECTL_PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

kubectl: $(KUBECTL_PLATFORMS:%=kubectl/%) ## build kubectl-accelerator for each platform into dist/; the first build takes minutes

kubectl/%:
	cd kubectl && CGO_ENABLED=0 GOOS=$(*D) GOARCH=$(*F) $(GO_BUILD) -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' \
		-o ../dist/kubectl-accelerator_$(VERSION)_$(*D)_$(*F)/ ./cmd/...
	@go -C tools run ./image -tree .. -created $(CREATED) -binary $$(ls dist/kubectl-accelerator_$(VERSION)_$(*D)_$(*F)/* | sed 's|^|../|') \
		-user-archive '../dist/kubectl-accelerator_$(VERSION)_$(*D)_$(*F).tar.gz'

# The address of the directory where the archives are published, and the registry of the images, with a path.
URL ?=
REGISTRY ?=

krew: kubectl ## write dist/accelerator.yaml, the manifest of kubectl accelerator for krew (VERSION=0.3.0 URL=https://...)
	@case '$(URL)' in https://?*) ;; *) echo 'URL is "$(URL)", want the https address of the directory where the archives will be' >&2; exit 2;; esac
	@sed -e 's|@VERSION@|$(VERSION:v%=%)|' -e 's|@URL@|$(URL)/kubectl-accelerator_$(VERSION)|' \
		$(foreach p,$(subst /,_,$(KUBECTL_PLATFORMS)),-e "s|@SHA256_$(p)@|$$(sha256sum < 'dist/kubectl-accelerator_$(VERSION)_$(p).tar.gz' | cut -c-64)|") \
		deploy/krew.yaml > dist/accelerator.yaml
	@$(KREW_VALIDATE) -skip-install -manifest dist/accelerator.yaml

lint-kubectl: ## check go.mod, go vet, staticcheck, allowed imports of kubectl/, and Windows (make lint runs gofmt)
	cd kubectl && go mod tidy -diff && go vet ./... && $(STATICCHECK) ./...
	cd kubectl && CGO_ENABLED=0 GOOS=windows go build -o /dev/null ./cmd/...
	@mkdir -p bin && sed -e 's/@VERSION@/0.0.0/; s/@SHA256_.*@/$(shell printf %064d)/; s|@URL@|https://example.com/x|' deploy/krew.yaml > bin/accelerator.yaml
	@$(KREW_VALIDATE) -skip-install -manifest bin/accelerator.yaml
	@cd kubectl && ! go list -deps ./cmd/... | grep -E '^b-com.com/accelerator-device-plugin/(cmd|inventory|watcher|daemon|server|sim|operator|dra)|pilebones'

build-registry: ## build accelerator-fpga-registry only
	cd registry && CGO_ENABLED=0 $(GO_BUILD) -ldflags '-s -w -X main.version=$(VERSION)' -o ../bin/ ./cmd/...

test-registry: build-plugin build-registry ## test accelerator-fpga pull, push and keep, also with a real registry, as root with a full disk (TESTS=pattern)
	cd registry && go test -count=1 $(RACE) ./...
	@test/registry/run.sh bin '$(TESTS)'

lint-registry: ## check go.mod, go vet, staticcheck, allowed imports of registry/ (make lint runs gofmt)
	cd registry && go mod tidy -diff && go vet ./... && $(STATICCHECK) ./...
	cd test/registry && go mod tidy -diff && go vet ./... && $(STATICCHECK) ./...
	@cd registry && ! go list -deps ./... | grep -v /daemon/apiserver$$ | grep -E '^b-com.com/accelerator-device-plugin/(cmd|inventory|watcher|daemon|server|sim|operator|dra|programming/hook)|pilebones'

clean: ## remove the built files
	rm -rf bin dist tools/site/node_modules

# The architectures of the images, and their creation time. It is the time of the commit, so that images of the same
# commit are identical.
ARCHES  ?= amd64 arm64
CREATED := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

image: $(ARCHES:%=image-%) ## build OCI archives and bills of materials into dist/ (ARCHES=amd64)

IMAGE_BUILD = CGO_ENABLED=0 GOOS=linux GOARCH=$* GOAMD64=v1 GOARM64=v8.0 $(GO_BUILD) -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'
# IMAGE is the command that writes the image with a name; each use appends arguments.
IMAGE = go -C tools run ./image -name $(1) -version '$(VERSION)' -revision '$(shell git rev-parse HEAD 2>/dev/null)' -created $(CREATED) \
	-out '../dist/$(1)_$(VERSION)_$*.tar' -sbom '../dist/$(1)_$(VERSION)_$*.cdx.json' -tree .. \
	$(if $(ARCHIVES),-user-archive '../dist/$(1)_$(VERSION)_linux_$*.tar.gz')

binaries-%:
	$(IMAGE_BUILD) -o dist/bin_$*/ ./cmd/...
	cd registry && $(IMAGE_BUILD) -o ../dist/bin_$*/ ./cmd/...
	cd dra && $(IMAGE_BUILD) -o ../dist/bin_$*/ ./cmd/...
	cd operator && $(IMAGE_BUILD) -o ../dist/bin_$*/ ./cmd/...

image-%: binaries-%
	@$(call IMAGE,accelerator-device-plugin) -description 'Kubernetes device plugin for FPGA cards' -licence GPL-3.0-only -source \
		-binary ../dist/bin_$*/accelerator-device-plugin -binary ../dist/bin_$*/accelerator-fpga -root ../dist/root_$* \
		$(if $(ARCHIVES),-file ../deploy/systemd/accelerator-device-plugin.service)
	@$(call IMAGE,accelerator-dra-driver) -description 'Kubernetes DRA driver for FPGA cards' -licence GPL-3.0-only -source \
		-binary ../dist/bin_$*/accelerator-dra-driver -binary ../dist/bin_$*/accelerator-device-plugin -binary ../dist/bin_$*/accelerator-fpga \
		$(if $(ARCHIVES),-source-archive '../dist/accelerator-device-plugin_$(VERSION)_source.tar.gz')
	@$(call IMAGE,accelerator-fpga-registry) -description 'Bitstreams for FPGA cards from OCI registries' -licence Apache-2.0 \
		-binary ../dist/bin_$*/accelerator-fpga-registry
	@$(call IMAGE,accelerator-operator) -description 'Names for FPGA functions in Kubernetes' -licence Apache-2.0 \
		-binary ../dist/bin_$*/accelerator-operator

test-arm64: binaries-arm64 kubectl/linux/arm64 ## run the programs for arm64, and tests of three packages, under qemu-user
	@test/arm64/run.sh dist/bin_arm64 'dist/kubectl-accelerator_$(VERSION)_linux_arm64'

# PACKAGE is the command that packages a chart.
PACKAGE = go -C tools run ./release -version '$(VERSION)' -registry '$(REGISTRY)' -created $(CREATED) -tree .. -chart $(1) -out ../$(2)

chart: ## package the Helm charts into dist/, for the images of this version (REGISTRY=registry.example.com/fpga, if they are in one)
	@rm -f dist/accelerator-*.tgz
	@$(call PACKAGE,accelerator-device-plugin,dist)
	@$(call PACKAGE,accelerator-operator,dist)

# The bytes of a release depend on the version of Go and on these variables. They also depend on GOEXPERIMENT, which
# `release -check` refuses.
release: export GOTOOLCHAIN = go1.26.8
release: export GOFIPS140 = off
release: export GOAMD64 = v1
release: export GOARM64 = v8.0
release: export GOWORK = off
release: export GOFLAGS := -buildvcs=false $(filter -p=% -modcacherw,$(GOFLAGS))

RELEASE = go -C tools run ./release -version '$(VERSION)' -registry '$(REGISTRY)' -url '$(URL)' -tree ..
MANIFEST = cd tools && GOFLAGS="$$GOFLAGS -trimpath" go tool helm template accelerator-device-plugin '../dist/release/accelerator-device-plugin-$(VERSION).tgz' \
	--namespace kube-system --skip-tests --set api=$(1) > ../dist/release/$(2).yaml

release: ## build all that is published into dist/release/: docs/releases.md (VERSION=0.3.0 REGISTRY=registry.example.com/fpga URL=https://...)
	@$(RELEASE) -check
	@rm -rf dist/release dist/*_'$(VERSION)'_* && mkdir -p dist/release
	@$(MAKE) --no-print-directory image ARCHES='amd64 arm64' ARCHIVES=1
	@$(MAKE) --no-print-directory $(if $(URL),krew,kubectl)
	@$(call PACKAGE,accelerator-device-plugin,dist/release)
	@$(call PACKAGE,accelerator-operator,dist/release)
	@$(call MANIFEST,devicePlugin,accelerator-device-plugin)
	@$(call MANIFEST,dra,accelerator-dra-driver)
	@cp dist/*_'$(VERSION)'_*.tar.gz dist/*_'$(VERSION)'_*.cdx.json $(if $(URL),dist/accelerator.yaml) deploy/systemd/accelerator-device-plugin.service dist/release/
	@$(RELEASE) -revision "$$(git rev-parse HEAD)" -created $(CREATED) -dist ../dist -out ../dist/release

# The checksums to compare with.
SUMS ?= dist/release/SHA256SUMS

release-check: ## build the release of HEAD again in another directory, and compare (SUMS=file, and the arguments of make release)
	@tools/release/compare.sh '$(SUMS)' VERSION='$(VERSION)' REGISTRY='$(REGISTRY)' URL='$(URL)'

# Where make test-release keeps the cosign that it builds.
COSIGN_VERSION := v3.1.3
COSIGN_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/accelerator-device-plugin/cosign-$(COSIGN_VERSION)

test-release: ## test that publish.sh signs, with cosign, which is built the first time (make test-chart has the other tests)
	@test -x '$(COSIGN_DIR)/cosign' || CGO_ENABLED=0 GOBIN='$(COSIGN_DIR)' go install -trimpath github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN_VERSION)
	cd tools && go test -count=1 -run Signatures ./release -cosign '$(COSIGN_DIR)/cosign'

outdated: ## list the modules that are required directly and have a newer version; asks the module proxy
	@tools/outdated.sh

manifests: ## generate files from the charts: deploy/manifests, tables of values in docs, golden files
	cd tools && go test -count=1 ./chart -update

test-chart: ## test charts, image builder and releases; builds helm, which takes minutes the first time
	cd tools && go vet ./... && go test -count=1 ./...
	@echo 'NOT RUN: TestSignatures of tools/release: make test-release runs it'
