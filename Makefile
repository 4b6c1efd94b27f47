# Every target does its own set-up (scripts/setup.sh); a second run of it takes a moment.
# CARGO_FLAGS=--offline works once the crates are there.
CARGO_FLAGS ?= --locked
DEMO_DIR ?= demo-output
export PATH := $(CURDIR)/.venv/bin:$(HOME)/.cargo/bin:$(PATH)

.PHONY: help demo build test check rust-test oracle-test layers docs-check bench deny clean

help:
	@echo 'make demo    build, make a sample acquisition and take it through the whole route'
	@echo 'make build   the release binary, target/release/stempack'
	@echo 'make test    formatting, lints, layers, documentation, Rust tests, and independent readers in Python'
	@echo 'make check   formatting, lints, layers and documentation only'
	@echo 'make bench   measure against other tools in one run (long; see bench/README.md)'
	@echo 'make deny    licences and advisories of all dependencies (needs cargo-deny)'

# The demo overwrites nothing, so every run gets a folder of its own.
demo: build
	@n=1; while [ -e "$(DEMO_DIR)/$$n" ]; do n=$$((n + 1)); done; \
	mkdir -p "$(DEMO_DIR)" && set -x && target/release/stempack demo "$(DEMO_DIR)/$$n"

build:
	@scripts/setup.sh build
	cargo build --release $(CARGO_FLAGS) -p stempack-cli

test: check rust-test oracle-test

check: layers docs-check
	@scripts/setup.sh build
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings

# Some of them have h5py write what they read.
rust-test:
	@scripts/setup.sh test
	STEMPACK_PYTHON=$(CURDIR)/.venv/bin/python cargo test $(CARGO_FLAGS) --workspace

# The same profile as the Rust tests, so that the C library is built once.
oracle-test:
	@scripts/setup.sh test
	cargo build $(CARGO_FLAGS) -p stempack-cli
	STEMPACK_BIN=$(CURDIR)/target/debug/stempack .venv/bin/python -m unittest discover -s tests-python -v

layers:
	@python3 scripts/check_layers.py

docs-check:
	@python3 scripts/check_docs.py

bench:
	@scripts/setup.sh test
	cargo build --release $(CARGO_FLAGS) -p stempack-cli
	.venv/bin/python bench/compare.py --binary target/release/stempack

deny:
	cargo deny check

clean:
	rm -rf target .venv $(DEMO_DIR)
