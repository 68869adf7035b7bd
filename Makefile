# `make help` lists the commands. Each command installs what a bare Debian machine lacks: packages with apt, tools into .venv.

PYTHON := /usr/bin/python3
BIN := .venv/bin
CAPACITYD := env PYTHONPATH=agent $(PYTHON) -m capacityd
DEMO_NODE := build/node.json

# Packages of the distribution, by purpose: `make packages-run` installs those of `run`.
# The agent needs these, like the .deb:
run := iproute2 python3 python3-kubernetes python3-psutil python3-pyudev python3-systemd python3-tabulate \
	python3-tomli python3-urllib3 python3-yaml
# The tests need these. systemd creates the machine id by which capacityd recognises its Node. Go builds the control plane;
# Debian's Go can download the version that go.mod names.
test := $(run) ca-certificates ethtool go-md2man groff-base linux-libc-dev man-db openssl procps \
	python3-prometheus-client python3-shtab python3-venv python3-wcwidth systemd udev util-linux zsh \
	$(if $(shell command -v go),,golang-go)
# To build the .deb and a release, and to test them.
deb := $(run) build-essential debhelper dh-python dpkg-dev git go-md2man python3-hypothesis python3-prometheus-client \
	python3-pytest python3-shtab
release := $(deb) gnupg gpgv python3-venv reprepro
package := $(release) debian-archive-keyring e2fsprogs mmdebstrap
# To create and run a virtual machine (tests/machine), and to make the trees of the corpus bootable.
machine := $(package) qemu-system-x86
corpus := $(package) cpio kmod xz-utils
# To draw the diagrams.
diagrams := graphviz

# Some CI images set PYTHONDONTWRITEBYTECODE. The tests start hundreds of Python processes.
unexport PYTHONDONTWRITEBYTECODE

# Test lanes, and the parts of lanes. Each is a target.
LANES := check test rest whole
PARTS := lint types imports spelling fast unit kubernetes cluster package machine adding site workflows as-user private-folder

.PHONY: help run demo deb release $(LANES) ci $(PARTS) format bench docs docs-cluster docs-autoscaling diagrams golden clean

help:
	@echo "make run      detect this machine's hardware and publish it to a sample Node (a JSON file)"
	@echo "make demo     the service with a real local control plane, scheduler and kubelet"
	@echo "make check    lint, types and fast unit tests, without root, in less than a minute"
	@echo "make test     make check, and each real part once, as root: 2 minutes on 2 cores, 5 with empty caches"
	@echo "make whole    all tests, as root: 20 minutes, 30 with empty caches"
	@echo "make ci       make test, and most of the tests that make test leaves out"
	@echo "make PART     one part of a lane: $(PARTS)"
	@echo "make format   format the code"
	@echo "make docs     update the output on the pages (docs-cluster, docs-autoscaling: on pages that need a control plane)"
	@echo "make golden   update the expected terminal output"
	@echo "make deb      the packages, in dist/"
	@echo "make release VERSION=1.2.3 KEY=FINGERPRINT  everything that is published, in dist/1.2.3"
	@echo "make bench    memory, wake-ups and times"
	@echo "make clean    remove all generated files"
	@echo "tests/README.md lists further tests that take minutes or hours."

run: packages-run
	@CAPACITYD="$(CAPACITYD)" NODE_FILE=$(DEMO_NODE) sh packaging/run

demo: .venv/ready
	@$(BIN)/python -m tests.cluster.demo

# tests/lanes defines what each lane runs.
$(LANES) $(PARTS): .venv/ready
	@$(BIN)/python -m tests.lanes $@

# In CI, a part that cannot run is a failure.
ci: .venv/ready
	@$(BIN)/python -m tests.lanes --complete test rest

format: .venv/ready
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet

docs: .venv/ready
	@mkdir -p build
	PYTHONPATH=agent:kubectl $(BIN)/python packaging/manual reference.md >build/reference.md && mv build/reference.md docs/reference.md
	PYTHONPATH=agent:kubectl $(BIN)/python packaging/manual json.md >build/json.md && mv build/json.md docs/json.md
	PYTHONPATH=agent:kubectl $(BIN)/python packaging/manual prometheusrule.yaml >build/rule.yaml && mv build/rule.yaml conf/prometheus/prometheusrule.yaml
	$(BIN)/python -m tests.support.tour

docs-cluster: .venv/ready
	$(BIN)/python -m tests.cluster.docs

docs-autoscaling: .venv/ready
	$(BIN)/python -m tests.autoscaling.test_karpenter

diagrams: packages-diagrams
	$(PYTHON) -B packaging/diagrams

golden: .venv/ready
	$(BIN)/python -m tests.support.terminals

deb: packages-deb
	@sh packaging/build-deb

# Creates everything that a release publishes, from the tag vVERSION, in dist/VERSION, signs it with KEY and checks it. It
# publishes nothing. CONTRIBUTING.md lists the steps of a release.
release: .venv-packaging/ready packages-release
	@.venv-packaging/bin/python -B packaging/release "$(VERSION)" "dist/$(VERSION)" $(KEY)

bench: .venv/ready
	$(BIN)/python -m tests.bench

clean:
	rm -rf build .venv .venv-packaging .mypy_cache .ruff_cache .pytest_cache .hypothesis

# With INSTALL=missing it only prints the packages that are not installed.
packages-%:
	@sh packaging/install-packages $(if $(filter missing,$(INSTALL)),--missing) $($*)

build/bin/actionlint: | packages-test
	@GOBIN=$(CURDIR)/build/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# The tools for the site and for releases have a separate environment, so that they do not change the libraries of the tests.
.venv-packaging/ready: packaging/tools.txt | packages-test
	$(PYTHON) -m venv .venv-packaging
	.venv-packaging/bin/pip install --quiet --disable-pip-version-check --retries=10 --no-deps --requirement packaging/tools.txt
	@touch $@

# The tests use the distribution's Python and libraries, like the .deb. Only the tools come from PyPI.
# PIP_CONSTRAINT, unlike --constraint, also pins build dependencies.
.venv/ready: pyproject.toml kubectl/pyproject.toml tests/tools.txt | packages-test
	$(PYTHON) -m venv --system-site-packages .venv
	PIP_CONSTRAINT=tests/tools.txt $(BIN)/pip install --quiet --disable-pip-version-check --retries=10 --editable '.[dev]' --editable ./kubectl
	@touch $@
