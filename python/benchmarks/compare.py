#!/usr/bin/env python3
"""Compares the package with the dbm modules, SQLite, LMDB and RocksDB, in one run.

    python benchmarks/compare.py [--pairs 1000000] [--rounds 3] [--directory /dev/shm] [--clock cpu] [--only NAME]

Pairs are a key of 16 bytes and a value of 32. Each round runs every engine once, in turn, so that other load on the
machine hits all of them; the median of the rounds is shown, with the lowest and highest. Inputs are made before the
clock starts, lookups are in another order than the puts, and every answer is compared. No engine syncs to the disk
within the clock. Engines that are not installed are left out and named. On a machine that is busy with other work
`--clock cpu` counts the processor time of this process, all threads together, instead of the time on the wall.

Tuned: dbm.gnu without syncs ("f"); SQLite with one transaction, a table without rowid, no journal, exclusive lock; LMDB
with one transaction, writemap, no sync; RocksDB without its log and with a filter. Rows with `one by one` are what a
Python loop over single calls does; `many` is each engine's call for many keys, where it has one.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import splitpoint

VALUE = b"v" * 32


class Engine:
    """Opens an empty store at ``path``, and says how single calls and calls for many keys look."""

    name = ""
    needs = ""

    def __init__(self, path: str) -> None:
        self.path = path

    def put_all(self, keys: list[bytes]) -> None:
        store, value = self.store, VALUE
        for key in keys:
            store[key] = value

    def get_all(self, keys: list[bytes]) -> None:
        store = self.store
        for key in keys:
            store[key]

    def get_many(self, keys: list[bytes]) -> Any:
        return None

    def close(self) -> None:
        self.store.close()

    store: Any


class Memory(Engine):
    name = "splitpoint.memory"

    def __init__(self, path: str) -> None:
        self.store = splitpoint.memory()

    def get_many(self, keys: list[bytes]) -> Any:
        return self.store.get_many(keys)


class File(Memory):
    name = "splitpoint.open"

    def __init__(self, path: str) -> None:
        self.store = splitpoint.open(path, "n")


class FileUnlogged(Memory):
    name = "splitpoint.open, none"

    def __init__(self, path: str) -> None:
        self.store = splitpoint.open(path, "n", durability="none")


class Gnu(Engine):
    name, needs = "dbm.gnu", "dbm.gnu"

    def __init__(self, path: str) -> None:
        import dbm.gnu

        self.store = dbm.gnu.open(path, "nf")


class Ndbm(Engine):
    name, needs = "dbm.ndbm", "dbm.ndbm"

    def __init__(self, path: str) -> None:
        import dbm.ndbm

        self.store = dbm.ndbm.open(path, "n")


class Dict(Engine):
    name = "dict, for scale"

    def __init__(self, path: str) -> None:
        self.store = {}

    def get_many(self, keys: list[bytes]) -> Any:
        return list(map(self.store.get, keys))

    def close(self) -> None:
        pass


class Sqlite(Engine):
    name, needs = "sqlite3", "sqlite3"

    def __init__(self, path: str) -> None:
        import sqlite3

        self.store = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=off", "synchronous=off", "locking_mode=exclusive", "cache_size=-400000"):
            self.store.execute(f"pragma {pragma}").fetchall()
        self.store.execute("create table t (k blob primary key, v blob) without rowid")

    def put_all(self, keys: list[bytes]) -> None:
        execute = self.store.execute
        execute("begin")
        for key in keys:
            execute("insert or replace into t values (?, ?)", (key, VALUE))
        execute("commit")

    def get_all(self, keys: list[bytes]) -> None:
        execute = self.store.execute
        for key in keys:
            execute("select v from t where k = ?", (key,)).fetchone()[0]


class Lmdb(Engine):
    name, needs = "lmdb", "lmdb"

    def __init__(self, path: str) -> None:
        import lmdb

        unsynced = {"writemap": True, "sync": False, "metasync": False, "lock": False}
        self.store = lmdb.open(path, map_size=8 << 30, subdir=False, **unsynced)

    def put_all(self, keys: list[bytes]) -> None:
        with self.store.begin(write=True) as transaction:
            put = transaction.put
            for key in keys:
                put(key, VALUE)

    def get_all(self, keys: list[bytes]) -> None:
        with self.store.begin() as transaction:
            get = transaction.get
            for key in keys:
                get(key)

    def get_many(self, keys: list[bytes]) -> Any:
        with self.store.begin() as transaction:
            return [value for _, value in transaction.cursor().getmulti(keys)]


class Rocks(Engine):
    name, needs = "rocksdict", "rocksdict"

    def __init__(self, path: str) -> None:
        from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteOptions

        options = Options(raw_mode=True)
        table = BlockBasedOptions()
        table.set_bloom_filter(10.0, False)
        table.set_block_cache(Cache(400 << 20))
        options.set_block_based_table_factory(table)
        options.create_if_missing(True)
        self.store = Rdict(path, options)
        write = WriteOptions()
        write.disable_wal = True
        self.store.set_write_options(write)

    def get_many(self, keys: list[bytes]) -> Any:
        return self.store.get(keys)


ENGINES = [Memory, File, FileUnlogged, Gnu, Ndbm, Sqlite, Lmdb, Rocks, Dict]
Results = dict[tuple[str, str], list[float]]
clock: Callable[[], float] = time.perf_counter


def timed(results: Results, row: str, column: str, count: int, work: Callable[[], Any]) -> Any:
    gc.collect()
    gc.disable()
    start = clock()
    answer = work()
    elapsed = clock() - start
    gc.enable()
    results.setdefault((row, column), []).append(count / elapsed / 1e6)
    return answer


def run_engine(
    engine: type[Engine], directory: str, keys: list[bytes], shuffled: list[bytes], results: Results
) -> None:
    place = tempfile.mkdtemp(dir=directory)
    try:
        store = engine(os.path.join(place, "store"))
        timed(results, engine.name, "put", len(keys), lambda: store.put_all(keys))
        timed(results, engine.name, "get", len(keys), lambda: store.get_all(shuffled))
        if engine.get_many is not Engine.get_many:
            values = timed(results, engine.name, "get many", len(keys), lambda: store.get_many(shuffled))
            assert len(values) == len(keys) and all(value == VALUE for value in values)
        if isinstance(store, Memory):
            run_arrays(engine.name, store.store, shuffled, results)
        store.close()
    finally:
        shutil.rmtree(place)


def run_arrays(name: str, table: splitpoint.Table, keys: list[bytes], results: Results) -> None:
    try:
        import numpy
    except ImportError:
        return
    array = numpy.array(keys)
    values = timed(results, name, "get many, NumPy", len(keys), lambda: table.get_many(array))
    assert bool(values.present.all())


def number(n: int) -> int:
    return n * 0x9E3779B1 & 0xFFFFFFFF  # as in rust/src/main.rs


def run_builds(directory: str, keys: list[bytes], rust: str | None, results: Results) -> None:
    place = tempfile.mkdtemp(dir=directory)
    try:
        path = os.path.join(place, "pairs.spd")
        if rust is not None:
            done = subprocess.run([rust, str(len(keys)), path], capture_output=True, text=True, check=True)
            wall, cpu = map(float, done.stdout.split())
            results.setdefault(("build, Rust", "put"), []).append((wall if clock is time.perf_counter else cpu) / 1e6)
        try:
            import pyarrow
        except ImportError:
            pass
        else:
            table = pyarrow.table({"key": pyarrow.array(keys, pyarrow.binary()), "value": [VALUE] * len(keys)})
            words = timed(
                results, "Dictionary.build, Arrow", "put", len(keys), lambda: splitpoint.Dictionary.build(table, path)
            )
            timed(results, "Dictionary.build, Arrow", "get", len(keys), lambda: [words[key] for key in keys])
            timed(results, "Dictionary.build, Arrow", "get many", len(keys), lambda: words.get_many(keys))
            with splitpoint.Dictionary(path, map_data=True) as mapped:
                timed(results, "Dictionary, mapped", "get", len(keys), lambda: [mapped[key] for key in keys])
                timed(results, "Dictionary, mapped", "get many", len(keys), lambda: mapped.get_many(keys))
                array = pyarrow.array(keys)
                timed(results, "Dictionary, mapped", "get many, NumPy", len(keys), lambda: mapped.get_many(array))
        pairs = [(key, VALUE) for key in keys]
        timed(results, "Dictionary.build, tuples", "put", len(keys), lambda: splitpoint.Dictionary.build(pairs, path))
    finally:
        shutil.rmtree(place)


def rust_builder() -> str | None:
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rust")
    target = os.path.join(folder, "..", "..", "..", "target", "python")
    build = ["cargo", "build", "--release", "--quiet", "--manifest-path", os.path.join(folder, "Cargo.toml")]
    try:
        subprocess.run([*build, "--target-dir", target], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"left out: the Rust builder ({error})", file=sys.stderr)
        return None
    return os.path.join(target, "release", "build-rate")


def show(results: Results) -> None:
    columns = list(dict.fromkeys(column for _, column in results))
    print("| M/s, median [lowest, highest] | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for row in dict.fromkeys(row for row, _ in results):
        cells = []
        for column in columns:
            rates = results.get((row, column))
            cell = f"{statistics.median(rates):.2f} [{min(rates):.2f}, {max(rates):.2f}]" if rates else ""
            cells.append(cell)
        print(f"| {row} | " + " | ".join(cells) + " |")


def ratios(results: Results) -> None:
    """The figures that the package is held to."""

    def median(row: str, column: str) -> float:
        return statistics.median(results[row, column])

    modules = [name for name in ("dbm.gnu", "dbm.ndbm") if (name, "put") in results]
    for column in ("put", "get"):
        if modules:
            best = max(modules, key=lambda name: median(name, column))
            ratio = median("splitpoint.open", column) / median(best, column)
            print(f"{column}: splitpoint.open is {ratio:.2f} x {best}, the best dbm module (wanted: 1.5)")
    print(f"get many: {median('splitpoint.memory', 'get many'):.2f} M keys/s from a list", end="")
    if ("splitpoint.memory", "get many, NumPy") in results:
        print(f", {median('splitpoint.memory', 'get many, NumPy'):.2f} from an array", end="")
    print(" (wanted: 5)")
    if ("build, Rust", "put") in results and ("Dictionary.build, Arrow", "put") in results:
        share = median("Dictionary.build, Arrow", "put") / median("build, Rust", "put")
        print(f"Dictionary.build from Arrow: {share:.0%} of the Rust builder's rate (wanted: 80%)")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--directory", default=None, help="where files are made, by default the temporary directory")
    arguments.add_argument("--only", action="append", help="an engine by name; repeatable")
    arguments.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    given = arguments.parse_args()
    global clock
    clock = time.process_time if given.clock == "cpu" else time.perf_counter
    engines = []
    for engine in ENGINES:
        if given.only and engine.name not in given.only:
            continue
        try:
            if engine.needs:
                importlib.import_module(engine.needs)
            engines.append(engine)
        except ImportError:
            print(f"left out: {engine.name}, which is not installed", file=sys.stderr)
    rust = rust_builder()
    keys = [b"%016d" % number(n) for n in range(given.pairs)]
    # Objects of their own, made in this order: keys to look up come from a file or a connection.
    shuffled = [bytes(bytearray(key)) for key in random.Random(1).sample(keys, len(keys))]
    results: Results = {}
    for round_ in range(given.rounds):
        for engine in engines:
            run_engine(engine, given.directory, keys, shuffled, results)
        run_builds(given.directory, keys, rust, results)
        print(f"round {round_ + 1} of {given.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    show(results)
    print()
    if not given.only:
        ratios(results)
    rounds = f"{given.pairs:,} pairs, {given.rounds} rounds, {given.clock} clock"
    versions = f"Python {platform.python_version()}, splitpoint {splitpoint.__version__}"
    print(f"{rounds}, {versions}, {platform.machine()}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
