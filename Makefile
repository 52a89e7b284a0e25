# make run      builds and starts a database, an emulator and a worker on this machine; ARGS="--rate 500" for options
# make test     builds and runs every test
# make lint     checks the format; make format fixes it
# make examples builds the example of a worker with Swift handlers (Examples/swift)
# make docs     builds UpstreamKit's documentation, for handler authors, as a web site in .build/docs
# make release  builds the optimised binary
# make baseline builds the bare C worker that `bench --baseline .build/baseline` compares ours with
# make instructions counts instructions and allocations per message, and fails where they rose; ARGS=--renew stores them
# make fuzz     fuzzes the parsers, each for FUZZ_SECONDS
# make sanitize runs the unit tests under the thread sanitizer, then the address sanitizer
#
# Targets that build first install missing Debian packages (as root, or with passwordless sudo).

SWIFT ?= swift
SOURCES := Sources Tests Benchmarks Fuzz Package.swift Examples/swift/Sources Examples/swift/Package.swift
BUILD_FLAGS := --explicit-target-dependency-import-check error
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help run test packages test-tools build examples docs release baseline instructions lint format \
	fuzz sanitize clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

run: packages release
	.build/release/upstream-worker dev $(ARGS)

test: packages test-tools build examples
	scripts/run-tests

packages:
	@scripts/install-packages

test-tools: packages
	@scripts/install-test-tools

build: packages
	$(SWIFT) build --build-tests $(BUILD_FLAGS)

# With the root package's resolved versions, in a build folder of its own.
examples: build
	cp Package.resolved Examples/swift/Package.resolved
	$(SWIFT) build --package-path Examples/swift --scratch-path .build/example $(BUILD_FLAGS)

docs: build
	scripts/build-docs

release: packages
	$(SWIFT) build -c release --product upstream-worker

baseline: packages
	mkdir -p .build
	$(CC) -O2 -Wall -Wextra -Wno-unused-parameter -o .build/baseline Benchmarks/Baseline/baseline.c \
		$$(pkg-config --cflags --libs openssl libxml-2.0 libpq) -lpthread

instructions:
	@scripts/install-packages valgrind binutils
	$(SWIFT) build -c release --product Micro
	scripts/count-instructions $(ARGS)

lint:
	$(SWIFT) format lint --strict --parallel --recursive $(SOURCES)

format:
	$(SWIFT) format --in-place --parallel --recursive $(SOURCES)

fuzz: packages
	Fuzz/run.sh xml $(FUZZ_SECONDS)
	Fuzz/run.sh json $(FUZZ_SECONDS)

sanitize: packages test-tools
	scripts/sanitize thread
	scripts/sanitize address

clean:
	$(SWIFT) package clean
