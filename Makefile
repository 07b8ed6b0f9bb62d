# make run      builds the program and takes the tour: real data in, out, timed and compared
# make test     everything: format, lints, all tests, documentation
# make slow     tests that take minutes or gigabytes: a value of 1 GiB, long runs over damaged files
# make fuzz     SECONDS=60 for each fuzz target, or TARGET=open alone; INPUT=file runs one input again
# make bench    ten million pairs in and out of a file; WORKLOAD=pairs-small is quicker, FILE= is in memory
# make help     this list
#
# `make test` is fmt, lint, unit, doc and some seconds of fuzz, each of which can be made by itself. Needs Rust and a C
# compiler's linker, and a C++ compiler to fuzz; says what to install where one is missing. Plain POSIX make and sh.

.POSIX:

CARGO = cargo
WORKLOAD = pairs
FILE = $${TMPDIR:-/tmp}/splitpoint-bench.spt
# What is fuzzed, and for how long each.
TARGET = open ops replay
SECONDS = 60
INPUT =
# Oldest Rust that builds the workspace; rust-version in Cargo.toml says the same (tests/it/tidy.rs compares).
RUST_MIN = 1.95

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

run: tools
	$(CARGO) run --release --quiet --package splitpoint-cli -- tour

test: fmt lint unit doc
	@$(MAKE) fuzz SECONDS=5
	@for part in fmt clippy; do \
	    $(CARGO) $$part --version >/dev/null 2>&1 || echo "SKIPPED: cargo $$part, which is not installed"; \
	done
	@command -v "$${CXX:-c++}" >/dev/null 2>&1 || echo 'SKIPPED: fuzzing, for want of a C++ compiler'
	@echo 'make test: passed'

slow: tools
	$(CARGO) test --workspace --locked --release -- --ignored

fuzz: tools
	@if test -n "$(INPUT)"; then \
	    CARGO="$(CARGO)" fuzz/run $(TARGET) $(INPUT); \
	else \
	    CARGO="$(CARGO)" fuzz/run $(SECONDS) $(TARGET); \
	fi

bench: tools
	$(CARGO) run --release --quiet --package splitpoint-bench -- $(WORKLOAD) $(FILE)
	@test -z "$(FILE)" || rm -f "$(FILE)"

# Lints and the layout of code are part of the tests. A toolchain without the two programs still runs the rest, and says so;
# with CI set, their absence is a failure.
fmt: tools
	@if $(CARGO) fmt --version >/dev/null 2>&1; then \
	    echo 'cargo fmt --all --check'; $(CARGO) fmt --all --check && $(CARGO) fmt --manifest-path fuzz/Cargo.toml --check; \
	else \
	    echo 'SKIPPED: format, as this Rust has no rustfmt (rustup component add rustfmt)'; test -z "$$CI"; \
	fi

lint: tools
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
	    echo 'cargo clippy'; $(CARGO) clippy --workspace --all-targets --locked -- -D warnings; \
	else \
	    echo 'SKIPPED: lints, as this Rust has no clippy (rustup component add clippy)'; test -z "$$CI"; \
	fi

unit: tools
	$(CARGO) test --workspace --locked

doc: tools
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items --locked

tools:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	    echo 'cargo is missing. Install Rust $(RUST_MIN) or later: apt install rustup && rustup default stable,'; \
	    echo 'or, where Debian has no rustup package, as https://rust-lang.org/tools/install says.'; exit 1; } >&2
	@command -v cc >/dev/null 2>&1 || { \
	    echo 'cc is missing, and Rust links with it. Install it: apt install gcc libc6-dev'; exit 1; } >&2
	@rustc --version | awk '{ split($$2, have, "."); split("$(RUST_MIN)", need, "."); \
	    if (have[1] < need[1] || have[1] == need[1] && have[2] + 0 < need[2] + 0) { \
	        print "This is Rust " $$2 ", Splitpoint needs $(RUST_MIN) or later: rustup update stable"; exit 1 } }' >&2

.PHONY: help run test slow fuzz bench fmt lint unit doc tools
