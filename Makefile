# make run      builds and starts everything on this machine: database, emulator, worker
# make test     builds and runs every test
# make lint     checks the format; make format mends it
# make examples builds the example of a worker with handlers of its own (Examples/swift)
# make docs     the documentation of UpstreamKit, for authors of handlers, as a web site in .build/docs
# make release  the optimised binary
# make baseline  the bare C worker that `bench --baseline .build/baseline` measures ours against
# make fuzz     fuzzes the parsers, FUZZ_SECONDS each
# make sanitize unit tests under the thread sanitizer, then under the address sanitizer
#
# All that build install missing Debian packages first (as root, or by sudo without a password).

SWIFT ?= swift
SOURCES := Sources Tests Package.swift Examples/swift/Sources Examples/swift/Package.swift
BUILD_FLAGS := --explicit-target-dependency-import-check error
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help run test packages test-tools build examples docs release baseline lint format fuzz sanitize clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

run: packages release
	.build/release/upstream-worker dev

test: packages test-tools build examples
	scripts/run-tests

packages:
	@scripts/install-packages

test-tools: packages
	@scripts/install-test-tools

build: packages
	$(SWIFT) build --build-tests $(BUILD_FLAGS)

# In the versions that the root was resolved to, and in a build folder of its own.
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
