"""Threads share a table: nothing is lost, and work in the library runs in parallel with Python."""

from __future__ import annotations

import threading
import time

import pytest
import splitpoint


def run(*works):
    """Runs each in a thread of its own; raises what one of them raised."""
    errors = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_no_write_is_lost(table):
    rounds, threads = 2000, 4

    def work(number):
        def writes():
            for i in range(rounds):
                table[f"{number} {i}"] = b"x"
                table.append(b"all", b"x")
                while True:
                    old = table.get(b"count", b"0")
                    if table.compare_and_set(b"count", None if b"count" not in table else old, str(int(old) + 1)):
                        break

        return writes

    run(*(work(number) for number in range(threads)))
    assert len(table) == threads * rounds + 2
    assert (len(table[b"all"]), table[b"count"]) == (threads * rounds, str(threads * rounds).encode())
    assert table.verify() == []


def test_readers_scans_and_writers_together(table):
    table.update((f"stay {i}", b"v") for i in range(3000))
    stop = threading.Event()

    def change():
        for i in range(20_000):
            table[f"come {i % 500}"] = bytes(i % 700)
            table.remove(f"come {(i * 7) % 500}")
        stop.set()

    def scan():
        while not stop.is_set():
            assert sum(key.startswith(b"stay") for key in table) == 3000
            assert sum(key.startswith(b"stay") for key, _ in table.items()) == 3000

    def look():
        while not stop.is_set():
            assert table.get_many([f"stay {i}" for i in range(100)]) == [b"v"] * 100

    run(change, scan, look)
    assert table.verify() == []


def test_close_waits_for_calls_and_refuses_later_ones(path):
    for _ in range(20):
        table = splitpoint.open(path)
        table.update((str(i), bytes(100)) for i in range(1000))
        closed = []

        def use():
            try:
                while True:
                    table.get_many([str(i) for i in range(1000)])
                    table[b"x"] = b"y"
                    list(table)
            except splitpoint.ClosedError as error:
                closed.append(error)

        def close():
            time.sleep(0.005)
            table.close()

        run(use, use, close)
        assert len(closed) == 2
    with splitpoint.open(path) as table:
        assert table[b"x"] == b"y" and table.verify() == []


def test_concurrent_reloads_leave_the_newest_version(tmp_path):
    path, spd = tmp_path / "table.spt", tmp_path / "words.spd"
    with splitpoint.open(path) as table, splitpoint.open(path, "r") as reader:
        words = splitpoint.Dictionary.build({"number": "0"}, spd)
        stop = threading.Event()

        def reload():
            while not stop.is_set():
                reader.reload()
                words.reload()

        def change():
            try:
                for number in range(1, 100):
                    table["number"] = str(number)
                    reader.reload()
                    words.update({"number": str(number)})
                    assert reader["number"] == words["number"] == str(number).encode()
            finally:
                stop.set()

        run(reload, reload, change)
        words.close()


def test_one_iterator_may_be_shared(table):
    table.update((str(i), b"") for i in range(5000))
    shared, seen = iter(table), []
    run(*[lambda: seen.extend(shared)] * 4)
    assert sorted(seen) == sorted(table)


def test_python_runs_while_the_library_works(table):
    """The interpreter lock is released: a thread of Python counts while another is in one long call."""
    keys = [str(i).encode() for i in range(200_000)]
    table.update((key, bytes(50)) for key in keys)
    counted, done = 0, threading.Event()

    def work():
        for _ in range(3):
            assert table.verify() == []
            table.get_many(keys)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    longest, last = 0.0, time.perf_counter()
    while not done.is_set():
        counted += 1
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    thread.join()
    assert counted > 1000
    # If the lock were held, one call would block this thread for its whole duration.
    assert longest < 2.0


@pytest.mark.parametrize("calls", [1])
def test_a_thread_that_is_stopped_midway_leaves_the_table_whole(table, calls):
    def broken():
        for i in range(10_000):
            if i == 7_000:
                raise RuntimeError("the source broke")
            yield str(i), b"v"

    with pytest.raises(RuntimeError, match="broke"):
        table.update_many(broken())
    assert len(table) <= 7000 and table.verify() == []
