# make run      builds and starts a database, an emulator and a worker on this machine; ARGS="--rate 500" for options
# make test     builds and runs every test
# make lint     checks the format, and the manifest of Examples/swift; make format fixes it
# make imports  fails where a file imports a module of which it uses nothing
# make plugins  builds the plugins for Kafka, NATS and RabbitMQ (Plugins/*.c) in .build/plugins
# make test-plugins builds and tests them with these servers, restarted and killed under load; ARGS="--messages 100000" for more
# make examples builds the example of a worker with Swift handlers (Examples/swift) as a package of its own
# make docs     builds UpstreamKit's documentation, for handler authors, as a web site in .build/docs
# make release  builds what is shipped, with Swift's runtime linked in: a tarball, its bill of materials and checksums
# make deb      builds the Debian packages: the same binary, and the plugins
# make check-deploy checks packages, their bytes, units, scripts, migrations and the image's file; ARGS="units" for some of it
# make test-package installs the package in a fresh system and follows docs/install.md there (as root); make deb before
# make compare  measures the worker beside a bare one in C, and what history and tracing cost; ARGS="--only baseline --repeats 3"
# make instructions counts instructions and allocations per message, and fails where they rose; ARGS=--renew stores them
# make chaos    kills, freezes and locks at random under load, then counts what is missing; ARGS="--seconds 600" for longer
# make simulate runs the worker on virtual time: every seed that ever failed, then new ones for SIMULATION_SECONDS (60)
# make mutants  breaks the worker on purpose, and looks for a seed of the simulation that notices; ARGS="--only window" for some
# make fuzz     fuzzes the parsers, each for FUZZ_SECONDS
# make sanitize runs the unit tests under the thread sanitizer, then the address sanitizer
#
# Targets that build first install missing Debian packages (as root, or with passwordless sudo).

SWIFT ?= swift
SOURCES := Sources Plugins Tests Benchmarks Fuzz Simulation Package.swift Examples/swift/Sources Examples/swift/Package.swift \
	Examples/plugin/swift
BUILD_FLAGS ?= --explicit-target-dependency-import-check error
FUZZ_SECONDS ?= 600
PLUGIN_PACKAGES := gcc libc6-dev librdkafka-dev libnats-dev librabbitmq-dev

.DEFAULT_GOAL := help
.PHONY: help run test packages test-tools build examples docs program release deb check-deploy test-package compare baseline \
	plugins test-plugins instructions lint imports format chaos simulate mutants fuzz sanitize clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

# Not optimised, as the tests are: a third of the time to build, and `make test` builds on it.
run: packages
	$(SWIFT) build --product upstream-worker $(BUILD_FLAGS)
	.build/debug/upstream-worker dev $(ARGS)

test: packages test-tools build
	scripts/run-tests

packages:
	@scripts/install-packages

test-tools:
	@scripts/install-test-tools

build: packages
	$(SWIFT) build --build-tests $(BUILD_FLAGS)

# As a package of somebody else's, with the root package's resolved versions, in a build folder of its own: minutes. The tests run
# the same sources, which `make build` has built.
examples: build
	cp Package.resolved Examples/swift/Package.resolved
	$(SWIFT) build --package-path Examples/swift --scratch-path .build/example $(BUILD_FLAGS)

docs: build
	scripts/build-docs

plugins:
	@scripts/install-packages $(PLUGIN_PACKAGES)
	scripts/build-plugins

test-plugins: program
	scripts/test-plugins $(ARGS)

# The optimised build that release, deb and what measures share.
program: packages
	@scripts/install-packages gcc libc6-dev
	@scripts/build-release

# What is needed after the long build is seen to before it.
release:
	@scripts/install-packages binutils python3 git
	@scripts/release-facts >/dev/null
	@$(MAKE) --no-print-directory program
	scripts/build-tarball

deb:
	@scripts/install-packages debhelper binutils python3 git $(PLUGIN_PACKAGES)
	@scripts/release-facts >/dev/null
	@$(MAKE) --no-print-directory program
	scripts/build-deb

check-deploy: test-tools
	scripts/check-deploy $(ARGS)

test-package:
	@scripts/test-package

compare: program baseline
	scripts/build-release Compare
	.build/release/Compare $(ARGS)

# A bare worker in C.
baseline: packages
	mkdir -p .build
	$(CC) -O2 -Wall -Wextra -Wno-unused-parameter -o .build/baseline Benchmarks/Baseline/baseline.c \
		$$(pkg-config --cflags --libs openssl libxml-2.0 libpq) -lpthread

instructions: packages
	@scripts/install-packages valgrind binutils
	scripts/build-release Micro
	scripts/count-instructions $(ARGS)

lint:
	$(SWIFT) format lint --strict --parallel --recursive $(SOURCES)
	$(SWIFT) package --package-path Examples/swift dump-package >/dev/null

imports: build
	scripts/unused-imports

format:
	$(SWIFT) format --in-place --parallel --recursive $(SOURCES)

chaos: program
	Benchmarks/Chaos/chaos.py $(ARGS)

simulate: packages
	scripts/build-release Simulation
	scripts/simulate

mutants: packages
	@scripts/install-packages python3 git
	scripts/mutants $(ARGS)

fuzz: packages
	Fuzz/run.sh xml $(FUZZ_SECONDS)
	Fuzz/run.sh json $(FUZZ_SECONDS)

sanitize: packages test-tools
	scripts/sanitize thread
	scripts/sanitize address

clean:
	$(SWIFT) package clean
