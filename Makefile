# The commands of the project: `make help` lists them. Each installs what a bare Debian machine lacks: packages by apt, tools
# into .venv.

PYTHON := /usr/bin/python3
BIN := .venv/bin
CAPACITYD := env PYTHONPATH=agent $(PYTHON) -m capacityd
DEMO_NODE := build/node.json

# The distribution's packages, by what needs them; `make packages-run` installs the first. The agent, as the .deb:
run := python3 python3-jsonpatch python3-kubernetes python3-psutil python3-pyudev python3-systemd python3-tabulate python3-tomli \
	python3-yaml
# The tests. systemd gives the machine an id, by which capacityd tells its own Node. Go builds the control plane: Debian's is
# enough to fetch the one that go.mod names.
test := $(run) ca-certificates ethtool fish go-md2man groff-base iproute2 linux-libc-dev man-db openssl procps \
	python3-prometheus-client python3-shtab python3-venv python3-wcwidth systemd udev util-linux zsh \
	$(if $(shell command -v go),,golang-go)
# What builds the .deb, a release, and what tests them.
deb := $(run) build-essential debhelper dh-python dpkg-dev go-md2man python3-hypothesis python3-prometheus-client python3-pytest \
	python3-shtab
release := $(deb) git gnupg gpgv python3-venv reprepro
package := $(release) debian-archive-keyring e2fsprogs mmdebstrap
# What makes a virtual machine (tests/machine) and runs it, and what makes the corpus' trees bootable.
machine := $(package) qemu-system-x86
corpus := $(package) cpio kmod xz-utils
# What builds systemd-python for a Python that is not the distribution's; what draws the diagrams; what a sponsor runs.
pythons := gcc libsystemd-dev pkg-config
diagrams := graphviz
sponsor := $(package) piuparts

# Some CI images set PYTHONDONTWRITEBYTECODE. The tests start hundreds of Python processes.
unexport PYTHONDONTWRITEBYTECODE

# The lanes of the tests, and their parts, which are targets too.
LANES := check test rest whole
PARTS := lint types imports spelling fast unit kubernetes cluster package machine adding site workflows

.PHONY: help run demo deb release $(LANES) ci $(PARTS) format bench docs docs-cluster docs-autoscaling diagrams golden clean

help:
	@echo "make run      detect this machine's hardware and publish it to a sample Node (a JSON file)"
	@echo "make demo     the service with a real local control plane, scheduler and kubelet"
	@echo "make check    lint, types and fast unit tests, without root, in less than a minute"
	@echo "make test     these and each real part once, as root: 4 minutes on 2 cores, 10 with empty caches"
	@echo "make whole    all tests, as root: 45 minutes"
	@echo "make ci       make test, and most of what it leaves out"
	@echo "make PART     one part of a lane: $(PARTS)"
	@echo "make format   lay the code out"
	@echo "make docs     update the output on the pages (docs-cluster, docs-autoscaling: of those that need a control plane)"
	@echo "make golden   update the expected output of terminals"
	@echo "make deb      the package, in dist/"
	@echo "make release VERSION=1.2.3 KEY=FINGERPRINT  everything that is published, in dist/1.2.3"
	@echo "make bench    memory, time and requests"
	@echo "make clean    remove what these have made here"
	@echo "tests/README.md lists further tests that take minutes or hours."

run: packages-run
	@CAPACITYD="$(CAPACITYD)" NODE_FILE=$(DEMO_NODE) sh packaging/run

demo: .venv/ready
	@$(BIN)/python -m tests.cluster.demo

# tests/lanes has what each runs.
$(LANES) $(PARTS): .venv/ready
	@$(BIN)/python -m tests.lanes $@

# What is left out here would be missing in CI: it is a failure.
ci: .venv/ready
	@$(BIN)/python -m tests.lanes --complete test rest

format: .venv/ready
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet

docs: .venv/ready
	@mkdir -p build
	PYTHONPATH=agent $(BIN)/python packaging/manual reference.md >build/reference.md && mv build/reference.md docs/reference.md
	PYTHONPATH=agent $(BIN)/python packaging/manual json.md >build/json.md && mv build/json.md docs/json.md
	$(BIN)/python -m tests.support.tour
	$(BIN)/python -m tests.corpus.page

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

# All that would be published, made from the tag vVERSION into dist/VERSION, signed with KEY, and checked. It publishes
# nothing. CONTRIBUTING.md has the steps around it.
release: .venv-packaging/ready packages-release
	@.venv-packaging/bin/python -B packaging/release "$(VERSION)" "dist/$(VERSION)" $(KEY)

bench: .venv/ready
	$(BIN)/python -m tests.bench

clean:
	rm -rf build .venv .venv-packaging .mypy_cache .ruff_cache .pytest_cache .hypothesis

# INSTALL=missing prints what is not installed instead.
packages-%:
	@sh packaging/install-packages $(if $(filter missing,$(INSTALL)),--missing) $($*)

build/bin/actionlint: | packages-test
	@GOBIN=$(CURDIR)/build/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# What builds the site and a release is kept apart from the libraries that the tests run with.
.venv-packaging/ready: packaging/tools.txt | packages-test
	$(PYTHON) -m venv .venv-packaging
	.venv-packaging/bin/pip install --quiet --disable-pip-version-check --retries=10 --no-deps --requirement packaging/tools.txt
	@touch $@

# The distribution's Python and libraries, so that what is tested is what the .deb runs on; the tools come from PyPI.
# PIP_CONSTRAINT, unlike --constraint, also pins build dependencies.
.venv/ready: pyproject.toml tests/tools.txt | packages-test
	$(PYTHON) -m venv --system-site-packages .venv
	PIP_CONSTRAINT=tests/tools.txt $(BIN)/pip install --quiet --disable-pip-version-check --retries=10 --editable '.[dev]'
	@touch $@
