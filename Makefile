# make run      the tour: real data in and out of a table, timed and compared; a minute to compile what it needs
# make test     everything: format, lints, all tests, documentation, examples
# make test-python  the Python package: wheel, tests and types, in virtual environments of its own; PYTHON=python3.12
# make test-spark   the Spark data source on a cluster of two worker processes; needs Java 17, installs PySpark (450 MB)
# make slow     tests that take minutes or gigabytes: a value of 1 GiB, long runs over damaged files; five mutants, others each
#               day; short runs of power and faults
# make mutants  proves that tests find mistakes: makes each one of tests/mutants/, whose test must fail; an hour; MUTANTS=same_salt
# make power    power losses on ext4, XFS and btrfs, on a disk that records each write: SECONDS=300, SEED, FS=xfs, REPLAY=folder
# make faults   each system call of a small workload fails once: SECONDS=300, SEED, REPLAY=case
# make test-server  the server with redis-cli, redis-benchmark, redis-py, hiredis; crashes; compared with redis; SECONDS=10,
#               SEED=new for other commands than always
# make test-server-programs  tests of Redis, memcached, libmemcached, redis-py and pymemcache, fetched with apt-get source and
#               pip, against the server: ten minutes; SUITE='redis unit/type/hash' is a part
# make bench-server  the server beside Redis and memcached, where they are installed: half an hour; BENCH=--short is a minute,
#               BENCH=latency one part (crates/server/benchmarks/measure.py)
# make fuzz     SECONDS=60 for each fuzz target, or TARGET=open alone; RUNS=20000 inputs exactly, always the same; INPUT=file
#               runs one input again
# make sanitize-scripts  the server's scripts, with Lua under AddressSanitizer; any Rust
# make sanitize the tests of threads and of unsafe code under ThreadSanitizer and AddressSanitizer, with a nightly Rust
# make platforms  compiles what is published for aarch64 Linux and macOS, and runs tests of the library on an emulated aarch64
# make bench    the short form of every workload, by us and our peers, into results/: 7.5 minutes; BENCH='--workload pairs' is one
# make bench-full  the long form: hours, 12 GB of memory, 11 GB of disk; BENCH='--form eighth --workload append' lies between
# make report   the tables and figures of the five seed documents, measured anew, into results/report.md and .html: half an hour;
#               two quiet cores
# make budget   counts bytes of loads, and instructions of put, get, append, remove and scan; fails above a budget
# make test-compat  the old interfaces (ndbm, dbm, gdbm, hsearch, dbopen) beside the system's, and under Perl and Python
# make c-library  builds the C library into target/c: lib/libsplitpoint.so and .a, include/splitpoint.h and .hpp, manual pages
# make install  the program with shell completions, the C library, manual pages of both, systemd units: PREFIX=/usr/local DESTDIR=;
#               make uninstall removes them
# make packages  the crates as crates.io gets them, each compiled from its package alone, into target/package
# make static   the archive of the static program, without libc of the system, into target/dist; ARCH=aarch64
# make deb      Debian packages of program, C library and its headers; make wheel the Python package, compiled and as source;
#               make container  the server alone in an image of podman or docker; all into target/dist
# make test-packages, test-static, test-deb, test-wheel, test-container  install each of them anew, use and remove it
# make deny     licences, origins, duplicates and known vulnerabilities of all dependencies, by cargo-deny (deny.toml)
# make api      the library's public interface against packaging/api/splitpoint.txt, by cargo-public-api; WRITE=--write replaces it
# make oldest   compiles everything with the oldest Rust that is supported
# make site     the documentation as one site with search, by mdBook, its links checked: target/dist/site
# make test-c   the tests of the C library; SECONDS=5, SEED=new for other random calls than always
# make test-compat-upstream  tests of them by gdbm, glibc, Perl and Python, fetched with apt-get source, over ours
# make uplot    fetches the plotting library of the lab's pages anew from npm: UPLOT=VERSION
# make bench-compat  words through ndbm and hsearch, beside gdbm, Berkeley DB and glibc
# make help     this list
#
# `make test` is fmt, lint, unit, doc, examples, test-c, test-python, test-spark, test-server and some fixed fuzz, each by
# itself too. Each runs to its end whatever the others do, none has a time limit, and what it says goes to target/test/. Needs Rust and a C compiler's linker, and a C++ compiler to fuzz; says what to install where one is missing. `make
# bench` installs the peers' libraries with apt-get; FEATURES=report measures without them. `make power` takes root and FUSE,
# says so where they lack, and as root installs what makes the file systems. Plain POSIX make and sh.

.POSIX:

CARGO = cargo
NIGHTLY = cargo +nightly
HOST = $$(rustc +nightly -vV | sed -n 's/^host: //p')
# More arguments for `splitpoint-bench run`, and the parts of it to build: peers need their libraries, report a crate for plots.
BENCH =
FEATURES = peers,report
# How long fuzz (each target), power and faults go on, if not as long as they do by themselves.
SECONDS =
# Cargo's target folder. A make that does not know `!=` takes the usual one.
BUILT = target
BUILT != CARGO='$(CARGO)' CARGO_TARGET_DIR='$(CARGO_TARGET_DIR)' .ci/built
# What is fuzzed.
TARGET = dictionary memcached open ops rdb replay resp scripts
INPUT =
RUNS =
# Which tests of other projects are run, if not all.
SUITE =
# Which mutants are run, if not all.
MUTANTS =
# Where power and faults begin (the clock says, and they print it), on which file systems, and what is to be done once more.
SEED =
FS =
REPLAY =
# All crates, and the program with what is optional: the selection of all tests, so that cargo compiles each crate once.
ALL = --workspace --features splitpoint-cli/full
# The crates that are published.
PUBLISHED = -p splitpoint -p splitpoint-capi -p splitpoint-lab -p splitpoint-server -p splitpoint-cli
# Oldest Rust that builds the workspace; rust-version in Cargo.toml says the same (tests/it/tidy.rs compares).
RUST_MIN = 1.89

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# The first time it compiles for a minute, and shows that.
run: tools
	@echo 'Compiles the library, and the measurements with the tour; not the program (cargo install --locked --path crates/cli).'
	$(CARGO) run --release --locked --package splitpoint-bench -- tour

test: tools
	@CARGO='$(CARGO)' MAKE='$(MAKE)' .ci/stages fmt lint databases unit doc examples test-c test-python test-spark test-server \
	    test-fuzz

test-fuzz:
	@$(MAKE) fuzz RUNS=8000

test-python: tools
	@CARGO="$(CARGO)" python/run-tests

test-spark: tools
	@CARGO="$(CARGO)" python/run-spark-tests

slow: tools
	$(CARGO) test $(ALL) --locked --release -- --ignored
	@$(MAKE) mutants MUTANTS='--sample 5'
	@$(MAKE) power SECONDS=60
	@$(MAKE) faults SECONDS=60

mutants: tools
	@command -v python3 >/dev/null 2>&1 || { echo 'python3 is missing. Install it: apt install python3'; exit 1; } >&2
	@CARGO='$(CARGO)' tests/mutants/run $(MUTANTS)

# Installs the clients where it may (crates/server/tests/run); what is missing is skipped, and that is said.
test-server: tools
	@program=$$(CARGO='$(CARGO)' .ci/tested splitpoint) && seconds='$(SECONDS)' && \
	    SECONDS="$${seconds:-10}" SEED='$(SEED)' SPLITPOINT="$$program" SPLITPOINT_SERVE="$$program serve" crates/server/tests/run

test-server-programs: tools
	@program=$$(CARGO='$(CARGO)' .ci/tested splitpoint) && \
	    SPLITPOINT_SERVE="$$program serve" python3 crates/server/tests/upstream.py $(SUITE)

# Two cores, quiet; each side has one of its own.
bench-server: tools
	@command -v python3 >/dev/null 2>&1 || { echo 'python3 is missing. Install it: apt install python3'; exit 1; } >&2
	@SPLITPOINT=$$(CARGO='$(CARGO)' $(PROGRAM)) && \
	    SERVER_LOAD=$$(CARGO='$(CARGO)' .ci/built --release --locked --package splitpoint-bench --bin server_load) && \
	    export SERVER_LOAD && SPLITPOINT_SERVE="$$SPLITPOINT serve" crates/server/benchmarks/measure.py $(BENCH)

fuzz: tools
	@if test -n "$(INPUT)"; then \
	    CARGO="$(CARGO)" fuzz/run $(TARGET) $(INPUT); \
	else \
	    runs='$(RUNS)'; seconds='$(SECONDS)'; \
	    CARGO="$(CARGO)" fuzz/run "$${runs:+runs=}$${runs:-$${seconds:-60}}" $(TARGET); \
	fi

TORTURE = $(CARGO) run --quiet --locked --package splitpoint-torture --
power: tools disks
	@if test -n '$(REPLAY)'; then $(TORTURE) again '$(REPLAY)'; else $(TORTURE) power '$(SECONDS)' '$(SEED)' '$(FS)'; fi

faults: tools
	@$(TORTURE) faults '$(SECONDS)' '$(SEED)' '$(REPLAY)'

# What makes the file systems, where it is missing and we may install it. One that is still missing is skipped, and that is said.
disks:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 || exit 0; \
	for maker in mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs; do \
	    command -v "$${maker%%:*}" >/dev/null 2>&1 || missing="$$missing $${maker#*:}"; \
	done; \
	test -n "$$missing" || exit 0; \
	echo "apt-get install$$missing"; \
	{ apt-get update -q && apt-get install -y -q --no-install-recommends $$missing; } || \
	    echo "These packages could not be installed:$$missing" >&2

# The tools of other databases, whose dumps `splitpoint load` and `dump` exchange. A test whose tools are missing is skipped,
# and that is said.
databases:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 || exit 0; \
	for tool in gdbm_dump:gdbmtool db5.3_dump:db5.3-util cdb:tinycdb mdb_dump:lmdb-utils sqlite3:sqlite3 zstd:zstd; do \
	    command -v "$${tool%%:*}" >/dev/null 2>&1 || missing="$$missing $${tool#*:}"; \
	done; \
	test -n "$$missing" || exit 0; \
	echo "apt-get install$$missing"; \
	{ apt-get update -q && apt-get install -y -q --no-install-recommends $$missing; } || \
	    echo "These packages could not be installed:$$missing" >&2
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
	    command -v google-chrome >/dev/null 2>&1 || echo "SKIPPED: the lab's pages in a browser, for want of Chromium"
	@for tool in gdbm_dump db5.3_dump cdb mdb_dump sqlite3 zstd; do \
	    command -v "$$tool" >/dev/null 2>&1 || echo "SKIPPED: exchange with other databases, for want of $$tool"; \
	done

# ThreadSanitizer has to see the standard library too, so that is built from its source (rustup component add rust-src). Both
# need a nightly Rust; where it or its source is missing, that is said, and is a failure where CI is set. Not the orders that
# shuttle tries: its tasks are not threads; and no test that measures memory, of which AddressSanitizer takes a part.

SANITIZED = gate::tests words::tests lookups_beside table_behaves
sanitize: tools
	@if $(NIGHTLY) --version >/dev/null 2>&1; then \
	    if test -d "$$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library"; then \
	        set -x; \
	        RUSTFLAGS='-Zsanitizer=thread --cfg splitpoint_portable' CARGO_TARGET_DIR='$(BUILT)/thread-sanitizer' \
	            $(NIGHTLY) test -Zbuild-std --target $(HOST) --locked --lib -- $(SANITIZED) && \
	        RUSTFLAGS='-Zsanitizer=thread --cfg splitpoint_portable' CARGO_TARGET_DIR='$(BUILT)/thread-sanitizer' \
	            $(NIGHTLY) test -Zbuild-std --target $(HOST) --locked --test it -- threads:: || exit 1; \
	    else \
	        echo 'SKIPPED: ThreadSanitizer, as nightly has no rust-src (rustup component add rust-src --toolchain nightly)'; \
	        test -z "$$CI"; \
	    fi; \
	    set -x; \
	    RUSTFLAGS='-Zsanitizer=address --cfg splitpoint_portable' CARGO_TARGET_DIR='$(BUILT)/address-sanitizer' \
	        $(NIGHTLY) test --target $(HOST) --locked --lib -- --skip interleavings --skip a_hundred_thousand_keys \
            --skip a_long_value_is_not_held && \
	    RUSTFLAGS='-Zsanitizer=address --cfg splitpoint_portable' CARGO_TARGET_DIR='$(BUILT)/address-sanitizer' \
	        $(NIGHTLY) test --target $(HOST) --locked --test it -- --skip tidy; \
	else \
	    echo 'SKIPPED: ThreadSanitizer and AddressSanitizer, which need a nightly Rust (rustup toolchain install nightly)'; \
	    test -z "$$CI"; \
	fi

# The server's scripts with Lua, which is C, under gcc's AddressSanitizer. The tests, then a fixed run of the fuzz target.
sanitize-scripts: tools
	CC=gcc CFLAGS='-fsanitize=address -g' ASAN_OPTIONS=detect_leaks=0 \
	RUSTFLAGS="-Clink-arg=-Wl,--whole-archive -Clink-arg=$$(gcc -print-file-name=libasan.a) -Clink-arg=-Wl,--no-whole-archive" \
	    CARGO_TARGET_DIR='$(BUILT)/scripts-sanitizer' \
	    $(CARGO) test --target "$$(rustc -vV | sed -n 's/^host: //p')" --locked --package splitpoint-server --no-default-features --features scripts --test scripts
	SANITIZE=1 CARGO="$(CARGO)" fuzz/run runs=20000 scripts

# Rust's libraries for the other platforms come by rustup. The emulator is Debian's qemu-user, with gcc-aarch64-linux-gnu to link;
# it ignores the advice that populates a mapping, which the skipped test of io expects to fail. The other skipped tests repeat
# a workload per call of the system, which takes the emulator hours. Memory order is that of the host.
PLATFORMS = aarch64-unknown-linux-gnu aarch64-apple-darwin
EMULATED = --skip what_is_stored --skip crash --skip dictionary:: --skip interleavings --skip a_failing_call \
    --skip a_hundred_thousand
platforms: tools
	@tools=$$(packaging/tools) && for platform in $(PLATFORMS); do \
	    if ! rustup target list --installed 2>/dev/null | grep -qx $$platform && \
	        ! rustup target add $$platform 2>/dev/null; then \
	        echo "SKIPPED: $$platform, for which this Rust has no libraries (rustup target add $$platform)"; continue; \
	    fi; \
	    echo "cargo check --target $$platform"; \
	    PATH=$$tools:$$PATH RUSTFLAGS='-D warnings' CARGO_TARGET_DIR='$(BUILT)/platforms' \
	        cargo-zigbuild check --quiet --locked --target $$platform $(PUBLISHED) --features splitpoint-cli/full || exit 1; \
	done
	@if command -v qemu-aarch64 >/dev/null 2>&1 && command -v aarch64-linux-gnu-gcc >/dev/null 2>&1; then \
	    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu' CARGO_TARGET_DIR='$(BUILT)/platforms' \
	        $(CARGO) test --locked --target aarch64-unknown-linux-gnu --package splitpoint --lib -- $(EMULATED); \
	else \
	    echo 'SKIPPED: tests on aarch64, for want of an emulator (apt install qemu-user gcc-aarch64-linux-gnu)'; \
	fi

MEASURE = $(CARGO) run --release --quiet --locked --package splitpoint-bench --features "$(FEATURES)" --

bench: tools peers
	@echo 'splitpoint-bench run --short $(BENCH)'
	@$(MEASURE) run --short $(BENCH); status=$$?; $(MEASURE) report --form short && exit $$status

# In both its sizes, where there are two; a form in BENCH stands instead of both.
bench-full: tools peers
	@case '$(BENCH)' in *--form*) forms='run';; *) forms='run --full:run --form eighth';; esac; status=0; IFS=:; \
	for form in $$forms; do \
	    echo "splitpoint-bench $$form $(BENCH)"; \
	    (unset IFS; $(MEASURE) $$form $(BENCH)) || status=1; \
	done; \
	unset IFS; $(MEASURE) report && exit $$status

# The workloads in their form `report`, the kernel study, the server's appends and stores with transactions.
report: tools peers
	@SPLITPOINT=$$(CARGO='$(CARGO)' $(PROGRAM)) && \
	    SERVER_LOAD=$$(CARGO='$(CARGO)' .ci/built --release --locked --package splitpoint-bench --bin server_load) && \
	    export SPLITPOINT SERVER_LOAD && SPLITPOINT_SERVE="$$SPLITPOINT serve" $(MEASURE) report --run

# The same counts on every x86-64 machine; other processors need budgets of their own.
budget: tools
	@CARGO='$(CARGO)' crates/bench/budget

# Only what is missing, and only for the peers: nothing else of this repository needs them.
peers:
	@case ',$(FEATURES),' in *,peers,*) ;; *) exit 0;; esac; \
	for package in $$(cat crates/bench/peers/packages.txt); do \
	    dpkg-query -W -f '$${Status}' "$$package" 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	test -n "$$missing" || exit 0; \
	test "$$(id -u)" = 0 || sudo='sudo -n'; \
	echo "$$sudo apt-get install$$missing"; \
	{ $$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $$missing; } || { \
	    echo "The peers need these packages, which could not be installed:$$missing"; \
	    echo 'Install them, or measure without peers in C and C++: make bench FEATURES=report'; exit 1; } >&2

# Lints and the layout of code are part of the tests. A toolchain without the two programs still runs the rest, and says so;
# with CI set, their absence is a failure.
fmt: tools
	@if $(CARGO) fmt --version >/dev/null 2>&1; then \
	    echo 'cargo fmt --all --check'; $(CARGO) fmt --all --check && $(CARGO) fmt --manifest-path fuzz/Cargo.toml --check && \
	        $(CARGO) fmt --manifest-path python/Cargo.toml --check; \
	else \
	    echo 'SKIPPED: format, as this Rust has no rustfmt (rustup component add rustfmt)'; test -z "$$CI"; \
	fi

lint: tools
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
	    echo 'cargo clippy'; $(CARGO) clippy $(ALL),splitpoint/log,splitpoint/serde --all-targets --locked -- -D warnings && \
	        $(CARGO) clippy --package splitpoint-cli --locked -- -D warnings && \
	        $(CARGO) clippy --manifest-path python/Cargo.toml --target-dir '$(BUILT)/python' --locked -- -D warnings; \
	else \
	    echo 'SKIPPED: lints, as this Rust has no clippy (rustup component add clippy)'; test -z "$$CI"; \
	fi

unit: tools
	$(CARGO) test $(ALL) --locked
	$(CARGO) test $(ALL),splitpoint/log,splitpoint/serde --locked --test events --test json

# Programs to start from; each checks its own results.
examples: tools
	@for example in session_store word_count resumable_scan batch_update; do \
	    echo "example $$example"; \
	    program=$$(CARGO='$(CARGO)' .ci/tested "examples/$$example") && "$$program" || exit 1; \
	done

# What `make install` copies, as it lies below PREFIX: bin/, include/, lib/, share/man/. Programs can be compiled with it as it
# is, by PKG_CONFIG_PATH=target/c/lib/pkgconfig, where target is cargo's target folder. What adds to the installation has a rule that writes here to STAGE.
C_OUT = $(BUILT)/c
STAGE = c-library compat-libraries
VERSION = $$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The date in the manual pages.
MAN_DATE = 2026-11-22

# In the static library only spt_* stay global, so that nothing in it meets another library of Rust in one program. Without its
# groups of sections, that library keeps its own, of which the linker would take only the first.
c-library: tools
	@mkdir -p '$(C_OUT)/include' '$(C_OUT)/lib/pkgconfig' '$(C_OUT)/lib/cmake/splitpoint' '$(C_OUT)/share/man/man3'
	@cp crates/capi/include/splitpoint.h crates/capi/include/splitpoint.hpp '$(C_OUT)/include/'
	@set -e; out='$(C_OUT)'; \
	built=$$(CARGO='$(CARGO)' .ci/built --profile packaged --quiet --locked --package splitpoint-capi); \
	shared=$$(echo "$$built" | grep '/libsplitpoint_c\.so$$'); static=$$(echo "$$built" | grep '/libsplitpoint_c\.a$$'); \
	cp "$$shared" "$$out/lib/libsplitpoint.so.$(VERSION)"; \
	ln -sf libsplitpoint.so.$(VERSION) "$$out/lib/libsplitpoint.so.0"; \
	ln -sf libsplitpoint.so.0 "$$out/lib/libsplitpoint.so"; \
	test "$$out/lib/libsplitpoint.a" -nt "$$static" || { \
	    ld -r --force-group-allocation -o "$$out/splitpoint.o" --whole-archive "$$static"; \
	    objcopy --wildcard --keep-global-symbol='spt_*' --remove-section=.llvmbc --remove-section=.llvmcmd --strip-debug \
	        "$$out/splitpoint.o"; \
	    rm -f "$$out/lib/libsplitpoint.a"; ar rcs "$$out/lib/libsplitpoint.a" "$$out/splitpoint.o"; \
	    rm "$$out/splitpoint.o"; }
	@sed "s/@VERSION@/$(VERSION)/" crates/capi/splitpoint.pc.in >'$(C_OUT)/lib/pkgconfig/splitpoint.pc'
	@cp crates/capi/cmake/splitpoint-config.cmake '$(C_OUT)/lib/cmake/splitpoint/'
	@sed "s/@VERSION@/$(VERSION)/" crates/capi/cmake/splitpoint-config-version.cmake.in \
	    >'$(C_OUT)/lib/cmake/splitpoint/splitpoint-config-version.cmake'
	@rm -f '$(C_OUT)'/share/man/man3/spt_*.3
	@awk -f crates/capi/man/pages.awk -v out='$(C_OUT)/share/man/man3' -v version="$(VERSION)" -v date=$(MAN_DATE) \
	    crates/capi/include/splitpoint.h

# Programs and libraries are installed without what only a debugger reads, four fifths of their size. The names of the installed
# files are kept in share/splitpoint/installed, for `make uninstall`.
DESTDIR =
PREFIX = /usr/local
INSTALLED = share/splitpoint/installed
UNITS = lib/systemd/system
# What builds the program and prints where it is. The tests take the one that they have anyway.
PROGRAM = .ci/built --profile packaged --quiet --locked --package splitpoint-cli --features full

install: $(STAGE)
	@mkdir -p '$(C_OUT)/bin' '$(C_OUT)/$(UNITS)' '$(C_OUT)/share/splitpoint'
	@program=$$(CARGO='$(CARGO)' $(PROGRAM)) && \
	    cp "$$program" '$(C_OUT)/bin/splitpoint'
	@cp crates/server/systemd/splitpoint.socket '$(C_OUT)/$(UNITS)/'
	@cp crates/server/grafana/splitpoint.json '$(C_OUT)/share/splitpoint/grafana.json'
	@sed 's|@PREFIX@|$(PREFIX)|' crates/server/systemd/splitpoint.service >'$(C_OUT)/$(UNITS)/splitpoint.service'
	@set -e; program='$(C_OUT)/bin/splitpoint'; share='$(C_OUT)/share'; \
	mkdir -p "$$share/bash-completion/completions" "$$share/zsh/site-functions" "$$share/fish/vendor_completions.d"; \
	"$$program" completions bash >"$$share/bash-completion/completions/splitpoint"; \
	"$$program" completions zsh >"$$share/zsh/site-functions/_splitpoint"; \
	"$$program" completions fish >"$$share/fish/vendor_completions.d/splitpoint.fish"; \
	rm -f "$$share"/man/man1/splitpoint*.1; "$$program" man --out "$$share/man/man1"
	@set -e; umask 022; to='$(DESTDIR)$(PREFIX)'; mkdir -p "$$to/share/splitpoint"; \
	(cd '$(C_OUT)' && find bin include lib share ! -type d | sort) >"$$to/$(INSTALLED)"; \
	while read -r file; do \
	    mkdir -p "$$to/$${file%/*}"; rm -f "$$to/$$file"; cp -P "$(C_OUT)/$$file" "$$to/$$file"; \
	    test -L "$$to/$$file" || case $$file in \
	        bin/* | lib/*.so.*) strip "$$to/$$file"; chmod 755 "$$to/$$file";; \
	        *) chmod 644 "$$to/$$file";; \
	    esac; \
	done <"$$to/$(INSTALLED)"; \
	echo "Installed $$(wc -l <"$$to/$(INSTALLED)") files in $$to."; \
	test -n '$(DESTDIR)' || test "$$(id -u)" != 0 || ! command -v ldconfig >/dev/null || ldconfig

# What is handed out, each by a target that makes it and one that installs, uses and removes it. The crates are in
# target/package, everything else in target/dist.
DIST = $(BUILT)/dist
# Of the static program: x86_64 or aarch64.
ARCH = x86_64

# A crate that is not on crates.io yet and that another one needs is found as if it were. Cargo unpacks and compiles a package of
# a registry once per version, so it would check a crate against an earlier package of another one: forget those.
packages: tools
	@rm -rf "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/-*/splitpoint*-$(VERSION) '$(BUILT)'/debug/.fingerprint/splitpoint*
	$(CARGO) package --locked $(PUBLISHED)

test-packages: packages
	@CARGO='$(CARGO)' packaging/test-crates

static: tools
	@CARGO='$(CARGO)' packaging/static '$(ARCH)' '$(DIST)'

test-static: static
	@packaging/test-static '$(ARCH)' '$(DIST)'

# What is staged is replaced as a whole, and so is not installed twice.
deb: tools
	@command -v dpkg-shlibdeps >/dev/null 2>&1 || { echo 'dpkg-dev is missing. Install it: apt install dpkg-dev'; exit 1; } >&2
	@rm -rf '$(DIST)/staged' && $(MAKE) install DESTDIR='$(DIST)/staged' PREFIX=/usr
	@packaging/licences splitpoint-cli $$(rustc --print host-tuple) --features splitpoint-cli/full >'$(DIST)/staged/THIRD-PARTY.txt'
	@packaging/deb '$(DIST)/staged' '$(DIST)'; status=$$?; rm -rf '$(DIST)/staged'; exit $$status

test-deb: deb
	@packaging/test-deb '$(DIST)'

container: static
	@packaging/container '$(DIST)'

test-container: container
	@packaging/test-container '$(DIST)/container'

wheel: tools
	@CARGO='$(CARGO)' packaging/wheel '$(DIST)'

test-wheel: wheel
	@packaging/test-wheel '$(DIST)'

# Advisories need their database, from the network.
deny: tools
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo 'cargo-deny is missing. Install it: cargo install --locked cargo-deny'; exit 1; } >&2
	@checks='licenses bans sources'; \
	if $(CARGO) deny --locked fetch db >/dev/null 2>&1; then checks="$$checks advisories"; \
	else echo 'SKIPPED: advisories, as their database cannot be fetched'; test -z "$$CI"; fi && \
	echo "cargo deny check $$checks" && \
	$(CARGO) deny --locked $(ALL) --exclude-dev --exclude-unpublished --config deny.toml check --hide-inclusion-graph $$checks && \
	$(CARGO) deny --locked --manifest-path python/Cargo.toml --exclude-dev --config deny.toml check --hide-inclusion-graph $$checks

# The library's public interface against that of the last release; WRITE=--write replaces the list.
WRITE =
api: tools
	@CARGO='$(CARGO)' packaging/test-api $(WRITE)

# With the oldest Rust that is to compile everything.
oldest: tools
	@rustup toolchain install $(RUST_MIN) --profile minimal 2>/dev/null || rustc +$(RUST_MIN) --version >/dev/null 2>&1 || { \
	    echo 'SKIPPED: the oldest Rust, $(RUST_MIN), which cannot be installed'; test -z "$$CI"; exit; }; \
	for crates in '$(ALL)' '--manifest-path python/Cargo.toml'; do \
	    echo "cargo +$(RUST_MIN) check $$crates"; \
	    CARGO_TARGET_DIR='$(BUILT)/oldest' RUSTFLAGS='-D warnings' \
	        cargo +$(RUST_MIN) check --quiet --locked --tests $$crates || exit 1; \
	done

# One site of the documentation: target/dist/site/index.html.
site: tools
	@CARGO='$(CARGO)' packaging/site '$(DIST)/site'

uninstall:
	@set -e; from='$(DESTDIR)$(PREFIX)'; \
	test -f "$$from/$(INSTALLED)" || { echo "Nothing is installed in $$from: $(INSTALLED) is missing." >&2; exit 1; }; \
	while read -r file; do rm -f "$$from/$$file"; done <"$$from/$(INSTALLED)"; \
	rm "$$from/$(INSTALLED)"; \
	for directory in share/splitpoint include/splitpoint lib/splitpoint lib/cmake/splitpoint lib/cmake lib/pkgconfig lib/systemd/system \
	    lib/systemd share/man/man3 share/man/man1 share/bash-completion/completions share/bash-completion share/zsh/site-functions \
	    share/zsh share/fish/vendor_completions.d share/fish; do \
	    rmdir "$$from/$$directory" 2>/dev/null || :; \
	done; \
	echo "Removed splitpoint from $$from."

# The tests of the C library: by gcc, AddressSanitizer and valgrind, installed and not. SECONDS is how long random calls go on.
test-c: tools $(STAGE)
	@status=0; SECONDS='$(SECONDS)' SEED='$(SEED)' crates/capi/tests/run || status=1; \
	$(COMPAT)/tests/run '$(C_OUT)' '$(BUILT)/c-compat' && exit $$status

# The old interfaces, beside the C library; their tests; and their speed.
COMPAT = crates/capi/compat

compat-libraries: c-library
	@built=$$(cd '$(BUILT)' && pwd) && $(MAKE) -s -C $(COMPAT) OUT="$$built/c" BUILD="$$built/c-compat"

test-compat: compat-libraries
	@$(COMPAT)/tests/run '$(C_OUT)' '$(BUILT)/c-compat'

test-compat-upstream: compat-libraries
	@$(COMPAT)/tests/upstream '$(C_OUT)' '$(BUILT)/c-compat'

bench-compat: compat-libraries
	@$(COMPAT)/bench/run '$(C_OUT)' '$(BUILT)/c-compat'

# The library is in the repository, with its checksums; this is how it came there. UPLOT is another version.
UPLOT =
uplot:
	@crates/cli/src/cmd/lab/page/assets/fetch $(UPLOT)

doc: tools
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc $(ALL) --no-deps --document-private-items --locked

tools:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	    echo 'cargo is missing. Install Rust $(RUST_MIN) or later: apt install rustup && rustup default stable,'; \
	    echo 'or, where Debian has no rustup package, as https://rust-lang.org/tools/install says.'; exit 1; } >&2
	@command -v cc >/dev/null 2>&1 || { \
	    echo 'cc is missing, and Rust links with it. Install it: apt install gcc libc6-dev'; exit 1; } >&2
	@rustc --version | awk '{ split($$2, have, "."); split("$(RUST_MIN)", need, "."); \
	    if (have[1] < need[1] || have[1] == need[1] && have[2] + 0 < need[2] + 0) { \
	        print "This is Rust " $$2 ", Splitpoint needs $(RUST_MIN) or later: rustup update stable"; exit 1 } }' >&2

.PHONY: help run test test-fuzz slow mutants power faults disks fuzz sanitize sanitize-scripts platforms bench bench-full report budget peers fmt lint unit examples doc \
    tools c-library compat-libraries test-compat install uninstall test-c test-python test-spark databases \
    test-compat-upstream bench-compat bench-server test-server test-server-programs packages test-packages \
    static test-static deb test-deb container test-container wheel test-wheel deny api oldest site uplot
