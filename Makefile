# The two commands of the project, run and test, and those that its developers use.
# Everything that a bare Debian machine lacks is installed by them: packages by apt, tools into .venv.

PYTHON := /usr/bin/python3
DEMO_NODE := build/node.json

# What the agent itself needs, from the distribution, as the .deb does; and what its tests and tools need beside that.
RUN_PACKAGES := python3 python3-jsonpatch python3-kubernetes python3-psutil python3-pyudev python3-systemd python3-tabulate python3-tomli python3-yaml
# systemd gives the machine an id, by which capacityd tells its own Node.
TEST_PACKAGES := ca-certificates ethtool fish go-md2man groff-base iproute2 linux-libc-dev man-db openssl procps python3-prometheus-client python3-shtab python3-venv python3-wcwidth systemd udev util-linux zsh

# Go only builds the control plane that the tests run on; Debian's is enough to fetch the one that go.mod names.
TEST_PACKAGES += $(if $(shell command -v go),,golang-go)

# What builds systemd-python for a Python that is not the distribution's.
PYTHONS_PACKAGES := gcc libsystemd-dev pkg-config

# What makes the .deb, and what tests it.
DEB_PACKAGES := $(RUN_PACKAGES) build-essential debhelper dh-python dpkg-dev go-md2man python3-hypothesis \
	python3-prometheus-client python3-pytest python3-shtab
RELEASE_PACKAGES := $(DEB_PACKAGES) git gnupg gpgv python3-venv reprepro
PACKAGE_PACKAGES := $(RELEASE_PACKAGES) debian-archive-keyring e2fsprogs mmdebstrap

# Beside those, what makes a virtual machine (tests/machine) and runs it.
MACHINE_PACKAGES := $(PACKAGE_PACKAGES) qemu-system-x86

# What makes the corpus' trees bootable, of other architectures too: nothing of theirs can be run for that.
CORPUS_PACKAGES := $(PACKAGE_PACKAGES) cpio kmod xz-utils

CAPACITYD := env PYTHONPATH=agent $(PYTHON) -m capacityd
BIN := .venv/bin

# A machine that is made for programs to run once may forbid to keep what they are compiled to. Here hundreds run.
unexport PYTHONDONTWRITEBYTECODE

# make matrix KUBERNETES="1.30 1.33-kubelet-1.30" makes some of its runs, make pythons PYTHONS=3.13 one.
KUBERNETES :=
PYTHONS := 3.10 3.11 3.12 3.13 3.14

# make kills KILLS="--kills 2000 --seed 7"
KILLS :=

# make histories HISTORIES="--each 100 --kind alterations"
HISTORIES :=

# make scale SCALE="--kubernetes 1.30 --nodes 50 --minutes 5 --seed 1"
SCALE :=
SPONSOR :=

UNREADABLE :=

.PHONY: help run demo test whole slow-checks check adding short-adding matrix scale kills histories autoscaling unreadable pythons newest fast unit cluster deb package unit-cluster-and-package machine short-machine docs golden lint types imports spelling \
	diagrams site sponsor release workflows packages-diagrams packages-sponsor packages-release \
	format bench clean docs-cluster docs-autoscaling docs-dashboard docs-boot corpus packages-run packages-test packages-pythons packages-deb packages-package packages-machine packages-corpus

help:
	@echo "make run    the main function with this machine's hardware, and a Node in a file"
	@echo "make demo   the service with a real local control plane, scheduler and kubelet"
	@echo "make test   the tests        make check   lint, types and fast unit tests"
	@echo "make whole  the tests of make test and those that it leaves out because they take long: about an hour"
	@echo "make matrix the tests of the protocol on each version of Kubernetes and of its client (hours)"
	@echo "make scale  200 Nodes with a real service each, ten minutes of random changes: does every Node agree?"
	@echo "make pythons  the unit tests with each Python on the PATH; make newest  all with the newest of everything"
	@echo "make unreadable  can an unreadable file make a number smaller? 20 minutes"
	@echo "make autoscaling  Karpenter on a real control plane, from a pending pod to a bound one"
	@echo "make kills  SIGKILL of a pass at its PATCH, 500 times: is the Node right after the next pass?"
	@echo "make histories  the shortest histories of each kind of fault on the real API server: does every Node end right?"
	@echo "make machine  a whole node in QEMU, from its boot to withdrawal; make test runs a part of it"
	@echo "make adding  are the pages on adding things complete? make check unit with all their examples"
	@echo "make bench  figures          make format  lay the code out"
	@echo "make deb    the package, in dist/; make release VERSION=1.2.3 KEY=FINGERPRINT  all that is published"
	@echo "make site   the documentation as a site, in build/site"
	@echo "make sponsor  what a Debian sponsor runs: a build in a chroot, lintian, autopkgtest, piuparts"
	@echo "make docs   updates the output on the pages (docs-cluster: on those that need a control plane; docs-autoscaling: on"
	@echo "            the page on Karpenter; docs-dashboard, docs-boot and diagrams: the pictures)"

run: packages-run
	@CAPACITYD="$(CAPACITYD)" NODE_FILE=$(DEMO_NODE) sh packaging/run

demo: .venv/ready
	@$(BIN)/python -m tests.cluster.demo

# The virtual machine runs beside the others, and so do the slow ones of the static checks. The output of each is shown
# when it has ended; if one fails, those that run continue to their end. Tests with the mark whole are for `make whole`.
test: lint spelling workflows .venv-packaging/ready packages-machine
	@echo "types, imports, site and adding; unit, cluster and package; machine: their output comes at their ends, in some minutes"
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target short-machine unit-cluster-and-package slow-checks

slow-checks: types imports site short-adding

# The tests of make test and those with the mark whole: about an hour.
whole: unit cluster package adding machine

# While developing: the unit tests that are not slow, with fewer of their random examples, and the others beside them.
check: export HYPOTHESIS_PROFILE := quick
check: .venv/ready
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target fast lint types imports spelling

# Each run says at its end whether it passed: tests/cluster/matrix.py has them. About 10 minutes for the build of a version
# and 5 for its tests, on 2 cores.
matrix: .venv/ready
	@$(BIN)/python -m tests.cluster.matrix $(KUBERNETES)

# About 20 minutes on 2 cores, and 5 GB of memory. Each service watches files: it names the sysctl that allows so many.
scale: .venv/ready
	@$(BIN)/python -m tests.cluster.scale $(SCALE)

# A file of each sort that a detector reads, on each recorded machine: make unreadable UNREADABLE="7 disks nics" takes
# the sample of seed 7 on two of them, and UNREADABLE=every all files of all machines (hours).
unreadable: .venv/ready
	@PYTHONPATH=agent:. $(BIN)/python -m tests.corpus.unreadable $(UNREADABLE)

# 500 kills of a pass around its PATCH: about a second each.
kills: .venv/ready
	@$(BIN)/python -m tests.cluster.kills $(KILLS)

# About 10 minutes on 2 cores. All that there are: make histories HISTORIES="--each 100", half an hour.
histories: .venv/ready
	@$(BIN)/python -m tests.cluster.histories $(HISTORIES)

# Some minutes, and once about 4 more on 2 cores to build Karpenter.
autoscaling: .venv/ready
	@$(BIN)/python -m tests.autoscaling.karpenter
	$(BIN)/pytest -q tests/autoscaling

pythons: .venv/ready packages-pythons
	@$(BIN)/python -m tests.pythons $(PYTHONS)

# Nothing is pinned, so it may fail on a day without a change of ours: it is for whoever moves the pins.
newest: .venv/ready packages-pythons
	@$(BIN)/python -m tests.newest

lint: .venv/ready
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet

types: .venv/ready
	$(BIN)/mypy

imports: .venv/ready
	$(BIN)/lint-imports --no-cache

spelling: .venv/ready
	$(BIN)/codespell

# A busy machine can make a test of real processes miss its deadline. What failed is run once more, by itself, and both
# runs are shown: a test that fails twice fails, and one that is flaky can be seen. $(1) names the cache of what failed.
define retrying
{ $(2) -o cache_dir=.pytest_cache/$(1); } || { echo "$(1): flaky unless it fails again:" && \
	$(2) -o cache_dir=.pytest_cache/$(1) --last-failed --last-failed-no-failures none; }
endef

# What starts programs or waits is marked slow.
fast: .venv/ready
	@$(call retrying,fast,$(BIN)/pytest -q -n $$(nproc) --timeout=300 -m "not slow" tests/unit tests/corpus)

# More workers than cores: some of these tests wait for processes and clocks.
unit: .venv/ready
	@$(call retrying,unit,$(BIN)/pytest -q -n $(shell expr $$(nproc) + 2) --dist worksteal --timeout=300 tests/unit tests/corpus)

# Here, too, and each worker has a control plane of its own: most of the time most of these tests wait. A file is for one
# worker. The files that take longest come first: those of the cluster that begin with an s, of the package with l, r or s.
CLUSTER := $(BIN)/pytest -q -n $(shell expr 3 '*' $$(nproc)) --dist loadscope --no-loadscope-reorder
cluster: .venv/ready
	@$(call retrying,cluster,$(CLUSTER) tests/cluster/test_s*.py tests/cluster/test_[!s]*.py)

deb: packages-deb
	@sh packaging/build-deb

package: .venv/ready .venv-packaging/ready packages-package
	@$(call retrying,package,$(BIN)/pytest -q -n 2 --dist loadscope tests/package)

# The site in build/site, with every link and anchor checked.
site: .venv-packaging/ready
	@rm -rf build/site
	@sh packaging/site/build .venv-packaging/bin build/site

# All that would be published, made from the tag vVERSION into dist/VERSION, signed with KEY, and checked. It publishes
# nothing. CONTRIBUTING.md has the steps around it.
release: .venv-packaging/ready packages-release
	@.venv-packaging/bin/python -B packaging/release "$(VERSION)" "dist/$(VERSION)" $(KEY)

workflows: build/bin/actionlint
	@build/bin/actionlint

build/bin/actionlint: | packages-test
	@GOBIN=$(CURDIR)/build/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# A build in a chroot, lintian, autopkgtest and piuparts, as a Debian sponsor runs them, on Debian 12 and 13; or one of
# them: make sponsor SPONSOR=piuparts. It needs a network.
sponsor: .venv/ready packages-sponsor
	@$(BIN)/python -m tests.package.sponsor $(SPONSOR)

# Runs make check unit in a copy of the project with all examples of agent/new-detector.md and agent/adding.md. make test
# runs only the tests there that depend on what was added.
adding: .venv/ready
	$(BIN)/pytest -q tests/adding

short-adding: .venv/ready
	$(BIN)/pytest -q -m "not whole" tests/adding

unit-cluster-and-package: .venv/ready .venv-packaging/ready packages-package
	@$(MAKE) --no-print-directory unit
	@$(call retrying,cluster-and-package,$(CLUSTER) -m "not whole" tests/package/test_[lrs]*.py tests/cluster/test_s*.py \
		tests/package/test_[!lrs]*.py tests/cluster/test_[!s]*.py)

# Its tests are one story from boot to withdrawal, so all of it is run again. 15 to 20 minutes on 2 cores.
machine: MACHINE := $(BIN)/pytest -q tests/machine
# The first boot with cloud-init, a disk that grows, a NIC that is added, and the journal of all that.
short-machine: MACHINE := $(BIN)/pytest -q -m "not whole" tests/machine
machine short-machine: .venv/ready packages-machine
	$(MACHINE) || { echo "machine: flaky unless it fails again:" && $(MACHINE); }

bench: .venv/ready
	$(BIN)/python -m tests.bench

docs: .venv/ready
	@mkdir -p build
	PYTHONPATH=agent $(BIN)/python packaging/manual reference.md >build/reference.md && mv build/reference.md docs/reference.md
	PYTHONPATH=agent $(BIN)/python packaging/manual json.md >build/json.md && mv build/json.md docs/json.md
	$(BIN)/python -m tests.support.tour
	$(BIN)/python -m tests.corpus.page

docs-cluster: .venv/ready
	$(BIN)/python -m tests.cluster.docs

diagrams: packages-diagrams
	$(PYTHON) -B packaging/diagrams

docs-autoscaling: .venv/ready
	$(BIN)/python -m tests.autoscaling.test_karpenter

# The picture of the dashboard. What draws it is needed for nothing else, so it is kept apart.
docs-dashboard: .venv/ready build/picture/ready
	PYTHONPATH=build/picture $(BIN)/python -m tests.support.dashboard_picture

# The time line of a boot, measured anew: on a machine that does nothing else.
docs-boot: .venv/ready
	$(BIN)/python -m tests.cluster.boot_picture

build/picture/ready: tests/picture.txt | .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --retries=10 --no-deps --upgrade --target build/picture --requirement tests/picture.txt
	@touch $@

golden: .venv/ready
	$(BIN)/python -m tests.support.terminals

# All of the recorded machines anew, or some: make corpus MACHINES="nics disks". About a minute for each.
corpus: .venv/ready packages-corpus
	$(BIN)/python -m tests.corpus $(MACHINES)

format: .venv/ready
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet

clean:
	rm -rf build .venv .venv-packaging .mypy_cache .ruff_cache .pytest_cache .hypothesis

packages-run:
	@sh packaging/install-packages $(RUN_PACKAGES)

packages-test:
	@sh packaging/install-packages $(RUN_PACKAGES) $(TEST_PACKAGES)

packages-diagrams:
	@sh packaging/install-packages graphviz

packages-pythons:
	@sh packaging/install-packages $(PYTHONS_PACKAGES)

packages-deb:
	@sh packaging/install-packages $(DEB_PACKAGES)

packages-release:
	@sh packaging/install-packages $(RELEASE_PACKAGES)

packages-sponsor:
	@sh packaging/install-packages $(PACKAGE_PACKAGES) piuparts

packages-package:
	@sh packaging/install-packages $(PACKAGE_PACKAGES)

packages-machine:
	@sh packaging/install-packages $(MACHINE_PACKAGES)

packages-corpus:
	@sh packaging/install-packages $(CORPUS_PACKAGES)

# What builds the site and a release is kept apart from the libraries that the tests run with.
.venv-packaging/ready: packaging/tools.txt | packages-test
	$(PYTHON) -m venv .venv-packaging
	.venv-packaging/bin/pip install --quiet --disable-pip-version-check --retries=10 --no-deps --requirement packaging/tools.txt
	@touch $@

# The distribution's Python and libraries, so that what is tested is what the .deb runs on; the tools come from PyPI.
# The variable, unlike the option, counts for what the build of the installation fetches, too.
.venv/ready: pyproject.toml tests/tools.txt | packages-test
	$(PYTHON) -m venv --system-site-packages .venv
	PIP_CONSTRAINT=tests/tools.txt $(BIN)/pip install --quiet --disable-pip-version-check --retries=10 --editable '.[dev]'
	@touch $@
