# Everything a contributor needs, one command each. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(PYTHON) deploy/install.py $(VENV) --editable
# One stamp a layer: what runs, what sends spans beside it, exports, and all that contributors use.
RUNS := $(VENV)/.run
OPENTELEMETRY := $(VENV)/.opentelemetry
EXPORTS := $(VENV)/.exports
INSTALLED := $(VENV)/.develop
PROJECTS := pyproject.toml setup.py sdk/python/pyproject.toml sdk/python/setup.py deploy/install.py
PYTEST_ARGS ?=
TEST_ARGS ?=
PART ?= all
SIM_RUNS ?= 2000
SIM_STORE_RUNS ?= 45
SIM_MODULE_RUNS ?= 20
SIM_HOURS ?= 2
SOAK_MINUTES ?= 120
SIM_DELIVERY_RUNS ?= 10
.DEFAULT_GOAL := help

.PHONY: help
help: ## List these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1  \2/p' $(MAKEFILE_LIST)

$(RUNS): requirements/run.lock $(PROJECTS)
	@$(INSTALL)
	@touch $@

$(OPENTELEMETRY): requirements/run.lock requirements/opentelemetry.lock $(PROJECTS)
	@$(INSTALL) --opentelemetry
	@touch $(RUNS) $@

$(EXPORTS): $(patsubst %,requirements/%.lock,run opentelemetry exports) $(PROJECTS)
	@$(INSTALL) --exports
	@touch $(RUNS) $(OPENTELEMETRY) $@

$(INSTALLED): $(patsubst %,requirements/%.lock,run opentelemetry exports develop) $(PROJECTS)
	@$(INSTALL) --develop
	@touch $(RUNS) $(OPENTELEMETRY) $(EXPORTS) $@

.PHONY: install
install: $(INSTALLED) ## Install all that contributors use, minutes and 1.7 GB; instant when it is there

.PHONY: exports
exports: $(EXPORTS) ## Install Spark and the lake libraries beside the server: 1 GB, about 2 minutes

.PHONY: opentelemetry
opentelemetry: $(OPENTELEMETRY) ## Install what sends spans and metrics to a collector beside the server: 7 MB

.PHONY: up
up: $(RUNS) ## Run everything on this machine, until Ctrl-C; installs what that needs, and no more
	@exec $(BIN)/packetboat up

.PHONY: up-container
up-container: ## The same on macOS: in a container of Linux (docker or podman), data in a volume of it
	@test -n "$(IMAGE_BUILDER)" || { echo "no docker or podman is here: install one" >&2; exit 1; }
	$(IMAGE_BUILDER) run --rm -it -p 127.0.0.1:8080:8080 -e PACKETBOAT_HOST=0.0.0.0 \
	  -e PACKETBOAT_DATA_DIR=/data -v packetboat-data:/data -v "$(CURDIR)":/packetboat:ro \
	  -w /packetboat docker.io/library/python:3.12 \
	  sh -c 'python deploy/install.py /opt/packetboat && exec /opt/packetboat/bin/packetboat up'

.PHONY: demo
demo: $(RUNS) ## In a second terminal: publish a log file, consume it with two workers
	@exec $(BIN)/python examples/demo.py

.PHONY: test
test: $(INSTALLED) ## Run all tests but the long ones, in 12 minutes on two cores (PYTEST_ARGS="-k name tests/unit")
	$(BIN)/python -m tests.run $(TEST_ARGS) -- $(PYTEST_ARGS)

.PHONY: test-long
test-long: $(INSTALLED) ## Run the long tests (an hour), or PART=2/5 of them; CI runs PART=rotating
	$(BIN)/python -m tests.run --long $(PART) $(TEST_ARGS) -- $(PYTEST_ARGS)

.PHONY: fresh-check
fresh-check: ## From git clone to the first 201 as on a new machine, with times and sizes (FRESH_ARGS=--tests)
	@$(PYTHON) tests/fresh_check.py $(FRESH_ARGS)

.PHONY: lint
lint: $(INSTALLED) ## Style, types, and which part may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m openapi --check
	$(BIN)/python sdk/python/generate_sync.py --check
	$(BIN)/mypy
	$(BIN)/python -m tests.packaging.complete_types
	$(BIN)/lint-imports
	$(BIN)/deptry .
	@command -v go >/dev/null || echo "no Go here: the Terraform provider and the checker of histories are not looked at"
	@! command -v go >/dev/null || (cd deploy/terraform/provider && test -z "$$(gofmt -l .)" && go vet ./...)
	@! command -v go >/dev/null || (cd tests/checker && test -z "$$(gofmt -l .)" && go vet ./...)

.PHONY: audit
audit: $(INSTALLED) ## Known vulnerabilities of the locked libraries and Go modules (pip-audit, govulncheck; network)
	$(BIN)/python -m tests.audit

.PHONY: check
check: lint test test-long ## Style, types and every test

.PHONY: sim
sim: $(INSTALLED) ## Simulated clusters: thousands of seeds of the consensus core, dozens of whole store nodes, ten of delivery
	$(BIN)/python -m tests.simulation --runs $(SIM_RUNS)
	$(BIN)/python -m tests.simulation.store --runs $(SIM_STORE_RUNS) --modules $(SIM_MODULE_RUNS) --processes 1 & store=$$!; \
	$(BIN)/python -m tests.simulation.delivery --runs $(SIM_DELIVERY_RUNS) --processes 1; found=$$?; \
	wait $$store && exit $$found

.PHONY: sim-long
sim-long: $(INSTALLED) ## Whole store nodes, and delivery, under simulation: new seeds for two hours (SIM_HOURS=2)
	$(BIN)/python -m tests.simulation.store --hours $(SIM_HOURS) --processes 1 & store=$$!; \
	$(BIN)/python -m tests.simulation.delivery --hours $(SIM_HOURS) --processes 1; found=$$?; \
	wait $$store && exit $$found

.PHONY: mutants
mutants: $(INSTALLED) ## Break one rule of the product at a time, each must fail its test: PART=K/N or rotating
	$(BIN)/python -m tests.mutants --part $(PART) $(MUTANTS_ARGS)

.PHONY: torture
torture: $(INSTALLED) ## Real processes: kills, hangs, power cuts; histories judged by us and by porcupine (root, minutes)
	$(BIN)/python -m tests.chaos.torture $(TORTURE_ARGS)

.PHONY: rolling
rolling: $(INSTALLED) ## Nine processes under load: rolling restarts, upgrades from the previous release, and back
	$(BIN)/python -m tests.chaos.rolling $(ROLLING_ARGS)

.PHONY: peer-tls
peer-tls: $(INSTALLED) ## Nine processes under load: TLS between them switched on, and off again
	$(BIN)/python -m tests.chaos.rolling.peer_tls --back

.PHONY: power-cuts
power-cuts: $(INSTALLED) ## 500 power cuts of random nodes under load (root, loop devices, about 20 minutes)
	$(BIN)/python -m tests.chaos.power_cuts $(POWER_CUTS_ARGS)

.PHONY: journeys
journeys: $(INSTALLED) ## The functions and files that a publish, a pull, an ack and a push pass (minutes; JOURNEYS_ARGS=ack)
	$(BIN)/python -m tests.journeys $(JOURNEYS_ARGS)

.PHONY: abuse
abuse: $(INSTALLED) ## Hostile input to every route beside a tenant that must not notice (hours; ABUSE_ARGS=--short: minutes)
	$(BIN)/python -m tests.abuse $(ABUSE_ARGS)

.PHONY: soak
soak: $(INSTALLED) ## Mixed load with kills of every process: what grows, what is lost, who elects (SOAK_MINUTES=120)
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) $(SOAK_ARGS)

.PHONY: install-storm
install-storm: $(INSTALLED) ## Nodes that lag and install checkpoints while their peers come and go (ten seeds, an hour)
	$(BIN)/python -m tests.chaos.install_storm --seed 1 --seeds 10 $(INSTALL_STORM_ARGS)

.PHONY: word-count
word-count: $(INSTALLED) ## Map and reduce: 10,000 tasks on four workers that are killed again and again
	$(BIN)/python -m tests.chaos.word_count --tasks 10000 $(WORD_COUNT_ARGS)

.PHONY: export-torture
export-torture: $(INSTALLED) ## Exports, exactly once, while all that takes part is killed at every step (half an hour)
	$(BIN)/python -m tests.chaos.exports $(EXPORT_TORTURE_ARGS)

.PHONY: export-million
export-million: $(INSTALLED) ## A million messages published, exported, and read by PyIceberg, DuckDB and PySpark
	$(BIN)/python -m tests.e2e.export_million $(EXPORT_MILLION_ARGS)

SPARK ?= 4.0.5

.PHONY: test-spark
test-spark: $(INSTALLED) ## Tests of Spark and exports with another Spark: SPARK=4.0.5 (into build/, half an hour)
	$(BIN)/python -m tests.other_spark $(SPARK) $(PYTEST_ARGS)

.PHONY: bench
bench: $(INSTALLED) ## Measure, with Kafka, NATS and RabbitMQ beside us where they can be had
	$(BIN)/python -m benchmarks

COMMIT ?= 0.2.0

.PHONY: bench-against
bench-against: $(INSTALLED) ## Measure this tree beside an earlier commit or release: COMMIT=0.2.0 (10 minutes)
	$(BIN)/python -m benchmarks.against $(COMMIT) $(BENCH_AGAINST_ARGS)

.PHONY: bench-scale
bench-scale: $(INSTALLED) ## Cost against topics, partitions, subscriptions, connections, backlog, size; what bends first (hours)
	$(BIN)/python -m benchmarks.scale $(BENCH_SCALE_ARGS)

.PHONY: bench-log
bench-log: $(INSTALLED) ## Measure the replicated log alone: append, fetch, catch-up, recovery
	$(BIN)/python -m benchmarks.store_log

.PHONY: bench-exports
bench-exports: $(INSTALLED) ## Exports beside the same job from Parquet files, and publishing beside both
	$(BIN)/python -m benchmarks.exports $(BENCH_EXPORTS_ARGS)

# Any of these builds it; `make image IMAGE_BUILDER=podman` chooses.
IMAGE_BUILDER ?= $(firstword $(foreach builder,docker podman buildah,$(shell command -v $(builder))))
IMAGE_BASE ?= docker.io/library/debian:12-slim
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

.PHONY: vendor-viewer
vendor-viewer: $(INSTALLED) ## Fetch the viewer of /docs from its npm package; VERSION_OF_VIEWER=5.35.0 pins another
	$(BIN)/python -m tests.vendor_viewer $(if $(VERSION_OF_VIEWER),--version $(VERSION_OF_VIEWER))

.PHONY: image
image: IMAGE_TARGET = server
image: IMAGE_NAME = packetboat
image: build-image ## Build the container image of store nodes and servers (docker, podman or buildah)

.PHONY: image-exports
image-exports: IMAGE_TARGET = exports
image-exports: IMAGE_NAME = packetboat-exports
image-exports: build-image ## The same with Spark, for runners of exports

.PHONY: build-image
build-image:
	@test -n "$(IMAGE_BUILDER)" || { echo "no docker, podman or buildah is here: install one" >&2; exit 1; }
	$(IMAGE_BUILDER) build --build-arg BASE=$(IMAGE_BASE) --build-arg INSTALL_OPTIONS="$(INSTALL_OPTIONS)" \
	  --file deploy/container/Dockerfile \
	  --target $(IMAGE_TARGET) --tag $(IMAGE_NAME):$(VERSION) .

.PHONY: release
release: $(INSTALLED) ## Build wheels, checksums, a bill of materials and the image into dist/ (REPOSITORY=https://…)
	@$(BIN)/python deploy/release.py --repository "$(REPOSITORY)" --image-builder "$(IMAGE_BUILDER)"

.PHONY: image-test
image-test: $(INSTALLED) ## Build the images on a Debian made here, run them confined, export (root, buildah, half an hour)
	$(BIN)/python -m pytest -q -o timeout=0 -o faulthandler_timeout=0 tests/deploy/image_check.py

.PHONY: systemd-test
systemd-test: $(INSTALLED) ## The units in a Debian that is booted beside this one (root, debootstrap, systemd-container, minutes)
	$(BIN)/python -m pytest -q -o timeout=0 -o faulthandler_timeout=0 tests/deploy/systemd_check.py

.PHONY: lock
lock: $(INSTALLED) ## Resolve all libraries anew, and write their layers into requirements/ (uv)
	@mkdir -p build
	@command -v uv >/dev/null || { echo "libraries are resolved with uv: install it" >&2; exit 1; }
	sed '/"packetboat-client/d' pyproject.toml > build/pyproject.toml
	sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml > build/build.in
	uv pip compile build/pyproject.toml sdk/python/pyproject.toml build/build.in --all-extras --universal \
	  --upgrade --generate-hashes --no-annotate --no-header --quiet -o build/all.lock
	$(BIN)/python deploy/lock.py build/all.lock

.PHONY: generate
generate: $(INSTALLED) ## Write all that is derived: from the API's contract, and the SDK's synchronous side
	$(BIN)/python -m openapi
	$(BIN)/python sdk/python/generate_sync.py

.PHONY: contract-test
contract-test: $(INSTALLED) ## The contract's tests over both listeners, and over HTTP/2 (some 15 minutes)
	TEST_EVERY_WAY=1 $(BIN)/python -m pytest -q tests/contract/test_openapi.py $(PYTEST_ARGS)

.PHONY: docs
docs: $(INSTALLED) ## Write the API's description to build/openapi.yaml and .json; /docs of a server shows it
	@mkdir -p build
	@$(BIN)/python -c "import json, openapi, pathlib; \
	  pathlib.Path('build/openapi.yaml').write_text(openapi.text()); \
	  pathlib.Path('build/openapi.json').write_text(json.dumps(openapi.document()))"
	@echo "build/openapi.yaml; start reading at README.md, ARCHITECTURE.md and docs/"

TERRAFORM_SOURCE := registry.terraform.io/packetboat/packetboat
TERRAFORM_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
TERRAFORM_MIRROR := build/terraform
TERRAFORM_FOLDER = $(TERRAFORM_SOURCE)/$(TERRAFORM_VERSION)/$(shell go env GOOS)_$(shell go env GOARCH)

.PHONY: terraform-provider
terraform-provider: ## Build the Terraform provider into build/terraform, with a terraform.rc that finds it
	@command -v go >/dev/null || { echo "the provider is built with Go 1.25 or later: https://go.dev/dl/"; exit 1; }
	cd deploy/terraform/provider && go build -trimpath -ldflags "-s -w -X main.version=$(TERRAFORM_VERSION)" \
	  -o $(CURDIR)/$(TERRAFORM_MIRROR)/$(TERRAFORM_FOLDER)/terraform-provider-packetboat_v$(TERRAFORM_VERSION) .
	@sed 's|MIRROR|$(CURDIR)/$(TERRAFORM_MIRROR)|' deploy/terraform/terraform.rc > $(TERRAFORM_MIRROR)/terraform.rc
	@echo "TF_CLI_CONFIG_FILE=$(CURDIR)/$(TERRAFORM_MIRROR)/terraform.rc terraform init"

.PHONY: terraform-provider-install
terraform-provider-install: terraform-provider ## The same for all of your Terraform: into ~/.terraform.d/plugins
	@mkdir -p $(HOME)/.terraform.d/plugins
	cp -R $(TERRAFORM_MIRROR)/registry.terraform.io $(HOME)/.terraform.d/plugins/

.PHONY: terraform-demo
terraform-demo: $(INSTALLED) terraform-provider ## All that a team has, made by Terraform at PACKETBOAT_URL, and an empty second plan
	@exec $(BIN)/python examples/terraform_demo.py

.PHONY: terraform-demo-destroy
terraform-demo-destroy: $(INSTALLED) terraform-provider ## Take away what terraform-demo made
	@exec $(BIN)/python examples/terraform_demo.py --destroy

.PHONY: bounds-docs
bounds-docs: $(INSTALLED) ## Write docs/operations/bounds.md of gateway/configuration/bounds.py
	@$(BIN)/python -m gateway.configuration.bounds

.PHONY: terraform-docs
terraform-docs: $(INSTALLED) terraform-provider ## Write docs/terraform-resources.md of what the provider says of itself
	@$(BIN)/python deploy/terraform/reference.py

KUBERNETES := build/kubernetes
KUBERNETES_VERSION = $(shell sed -n 's|^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' tests/terraform/kubernetes/go.mod)
KUBERNETES_KINDS := \
  github.com/cert-manager/cert-manager@v1.21.2:deploy/crds/cert-manager.io_certificates.yaml \
  github.com/kedacore/keda/v2@v2.21.0:config/crd/bases/keda.sh_scaledobjects.yaml \
  github.com/prometheus-operator/prometheus-operator@v0.85.0:example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml \
  github.com/prometheus-operator/prometheus-operator@v0.85.0:example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml

.PHONY: kubernetes-tools
kubernetes-tools: ## Build a Kubernetes API into build/kubernetes, with the kinds of operators (Go, minutes)
	@mkdir -p $(KUBERNETES)/kinds
	cd tests/terraform/kubernetes && go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" \
	  -o $(CURDIR)/$(KUBERNETES)/ tool
	@mv $(KUBERNETES)/server $(KUBERNETES)/etcd
	@for kind in $(KUBERNETES_KINDS); do \
	  folder=$$(go mod download -json $${kind%%:*} | sed -n 's/.*"Dir": "\(.*\)",*/\1/p'); \
	  install -m 644 "$$folder/$${kind#*:}" $(KUBERNETES)/kinds/ || exit 1; \
	done

.PHONY: kubernetes-test
kubernetes-test: $(INSTALLED) kubernetes-tools ## Apply the platform module to that API, with Terraform's own provider (minutes)
	$(BIN)/python -m pytest -q -o faulthandler_timeout=0 tests/terraform/test_platform_cluster.py

.PHONY: clean
clean: ## Remove what was built (not the data in .packetboat)
	rm -rf $(VENV) build *.egg-info sdk/python/*.egg-info .mypy_cache .ruff_cache .pytest_cache
