"""Other processes, forks, pickles and Ctrl-C."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
import splitpoint


def in_child(work) -> str:
    """Returns what ``work`` returns, or the name of what it raises, in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, str(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


def test_tables_where_address_space_is_limited(path):
    """A table takes a few MiB of it in addition to the log."""
    with splitpoint.open(path) as table:
        table.update((str(i), "value") for i in range(1000))
    work = """
import resource, sys, splitpoint, splitpoint.dbm
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
path = sys.argv[1]
with splitpoint.open(path, "r") as table:
    assert len(list(table.items())) == 1000
with splitpoint.open(path) as table, splitpoint.memory() as memory:
    table.update((f"new {i}", "value") for i in range(20_000))
    memory.update(table.items())
    assert len(memory) == 21_000
with splitpoint.dbm.open(path + ".dbm", "c") as words:
    words["key"] = "value"
    splitpoint.Dictionary.build(words, path + ".spd").close()
"""
    subprocess.run([sys.executable, "-c", work, path], check=True)


def test_use_after_fork_refuses(path):
    with splitpoint.open(path) as table:
        table[b"a"] = b"1"
        scan = table.scan()
        for use in (
            lambda: table[b"a"],
            lambda: table.__setitem__(b"a", b"2"),
            lambda: table.get_many([b"a"]),
            lambda: next(scan),
            table.sync,
            table.close,
            table.verify,
            table.stats,
            table.compact,
            lambda: table.backup(path + "2"),
        ):
            said = in_child(use)
            assert said.startswith("ForkedError") and "forked" in said, said
        assert (table[b"a"], table.verify()) == (b"1", [])
        table[b"b"] = b"2"
    with splitpoint.open(path) as table:
        assert dict(table) == {b"a": b"1", b"b": b"2"}


def test_a_child_that_ends_leaves_the_table_to_its_parent(path):
    program = """
import os, splitpoint, sys
table = splitpoint.open(sys.argv[1])
table[b"a"] = b"1"
if os.fork() == 0:
    sys.exit(0)  # an ordinary exit, which frees all objects
assert os.wait()[1] == 0
table[b"b"] = b"2"
table.close()
"""
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=60)
    with splitpoint.open(path, "r") as table:
        assert dict(table) == {b"a": b"1", b"b": b"2"}


def test_tables_in_memory_and_dictionaries_are_copied_by_a_fork(tmp_path):
    table = splitpoint.memory()
    table[b"a"] = b"1"
    words = splitpoint.Dictionary.build({"a": "1"}, tmp_path / "words.spd")
    assert in_child(lambda: (table[b"a"], words[b"a"], list(words))) == "(b'1', b'1', [b'a'])"


def test_a_second_writer_is_refused_and_readers_stay_as_they_were_until_they_reload(path):
    with splitpoint.open(path) as table:
        table[b"a"] = b"1"
        with pytest.raises(splitpoint.LockedError) as raised:
            splitpoint.open(path)
        assert isinstance(raised.value, OSError) and raised.value.kind is splitpoint.ErrorKind.LOCKED
        with splitpoint.open(path, "r") as reader:
            assert dict(reader) == {b"a": b"1"}
            table[b"a"] = b"2"
            assert reader[b"a"] == b"1"
            assert reader.reload() is True and reader.reload() is False
            assert dict(reader) == {b"a": b"2"} and table.reload() is False
            with splitpoint.open(path, "r", checkpoint_only=True) as checkpoint:
                assert len(checkpoint) == 0
                table.checkpoint()
                assert reader[b"a"] == b"2" and len(checkpoint) == 0
                assert checkpoint.reload() is True and dict(checkpoint) == {b"a": b"2"}
        with splitpoint.open(path, "r") as reader:
            assert dict(reader) == {b"a": b"2"}


def test_a_killed_process_loses_nothing(path):
    program = """
import os, signal, splitpoint, sys
table = splitpoint.open(sys.argv[1])
for i in range(10_000):
    table[str(i)] = b"v"
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program, path], timeout=60).returncode == -signal.SIGKILL
    with splitpoint.open(path) as table:
        assert len(table) == 10_000 and table.verify() == []


def test_an_exit_without_close_keeps_everything(path):
    program = "import splitpoint, sys\nt = splitpoint.open(sys.argv[1])\nt.update({'a': '1'})"
    subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program, path], check=True, timeout=60)
    assert sorted(os.listdir(os.path.dirname(path))) == ["table.spt"]
    with splitpoint.open(path, "r") as table:
        assert dict(table) == {b"a": b"1"}


def test_pickling_refuses(table):
    for handle in (table, table.batch()):
        for take in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot pickle or copy a splitpoint"):
                take(handle)


def test_errors_can_be_pickled(path):
    with pytest.raises(FileNotFoundError) as raised:
        splitpoint.open(path, "w")
    back = pickle.loads(pickle.dumps(raised.value))
    assert (type(back), back.kind, str(back), back.errno) == (
        type(raised.value),
        splitpoint.ErrorKind.IO,
        str(raised.value),
        raised.value.errno,
    )


def seconds_to_interrupt(work, after=0.3) -> float:
    """Sends this process a SIGINT during ``work``; returns how long the work continued."""
    sent = []

    def send():
        time.sleep(after)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
            thread.join()
            time.sleep(1)  # the work was too short
        return time.perf_counter() - sent[0]
    finally:
        thread.join()


def endless():
    i = 0
    while True:
        yield b"%d" % i, b"value"
        i += 1


def test_ctrl_c_ends_a_build_while_it_reads(tmp_path):
    path = tmp_path / "words.spd"
    build = lambda: splitpoint.Dictionary.build(endless(), path, memory_bytes=1 << 20)
    assert seconds_to_interrupt(build) < 60
    assert os.listdir(tmp_path) == []


def test_ctrl_c_ends_a_build_while_it_writes(tmp_path):
    pairs = [(b"%d" % i, bytes(100)) for i in range(400_000)]
    began = []

    def build():
        began.append(True)
        splitpoint.Dictionary.build(pairs, tmp_path / "words.spd", index="chunk", effort="small", progress=stop)

    def stop(phase, done, total):
        if phase == "write":
            os.kill(os.getpid(), signal.SIGINT)

    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        build()
        time.sleep(1)
    assert time.perf_counter() - start < 30
    assert os.listdir(tmp_path) == []


def test_ctrl_c_ends_a_backup(tmp_path):
    table = splitpoint.memory()
    table.update((str(i), bytes(1000)) for i in range(100_000))

    def backups():
        while True:
            table.backup(tmp_path / "copy.spt", overwrite=True)

    assert seconds_to_interrupt(backups) < 60
    assert [name for name in os.listdir(tmp_path) if name != "copy.spt"] == []
    table[b"still"] = b"usable"


def test_ctrl_c_ends_a_compaction(path):
    with splitpoint.open(path) as table:
        table.update((str(i), bytes(100)) for i in range(100_000))

        def compacts():
            while True:
                table.compact()

        assert seconds_to_interrupt(compacts) < 60
        assert table.verify() == [] and len(table) == 100_000


def test_ctrl_c_ends_update_many_and_get_many(table):
    assert seconds_to_interrupt(lambda: table.update_many(endless())) < 60
    assert table.verify() == []
    keys = [b"%d" % i for i in range(1000)] * 20_000
    before = table.counters()
    seconds_to_interrupt(lambda: table.get_many(keys))
    after = table.counters()
    looked_up = after.hits + after.misses - before.hits - before.misses
    assert looked_up < len(keys) / 2, "it ended by itself"


def is_refused_during(work, open_, name):
    """Opens by ``open_``; returns whether the call ``name`` failed in a signal handler that ran during ``work``."""
    refused = []

    def handler(*_):
        try:
            getattr(opened, name)()
        except splitpoint.InUseError:
            refused.append(True)
            raise

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for number in range(400):
            opened = open_()
            try:
                # Signals before and after the work close it, or come too late: then the test tries again.
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + number % 40))
                work(opened)
            except (splitpoint.InUseError, splitpoint.ClosedError):
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            opened.close()
            if refused:
                return True
    finally:
        signal.signal(signal.SIGALRM, before)
    return False


@pytest.mark.parametrize("name", ["get_many", "get_column", "verify", "stats", "compact"])
def test_a_signal_handler_may_not_close_a_table_at_work(path, name):
    with splitpoint.open(path) as table:
        table.update((str(i), bytes(1000)) for i in range(5000))
    keys = [str(i).encode() for i in range(5000)] * 20
    column = keys
    if name == "get_column":
        column = pytest.importorskip("pyarrow").array(keys)
    work = (lambda table: table.get_many(column)) if name.startswith("get") else (lambda table: getattr(table, name)())
    assert is_refused_during(work, lambda: splitpoint.open(path), "close")


@pytest.mark.parametrize("call", ["close", "reload"])
@pytest.mark.parametrize("name", ["get_many", "verify"])
def test_a_signal_handler_may_not_change_a_dictionary_at_work(tmp_path, name, call):
    path = tmp_path / "words.spd"
    splitpoint.Dictionary.build(((str(i), bytes(1000)) for i in range(5000)), path).close()
    keys = [str(i).encode() for i in range(5000)] * 20
    work = (lambda words: words.get_many(keys)) if name == "get_many" else (lambda words: words.verify())
    assert is_refused_during(work, lambda: splitpoint.Dictionary(path), call)


def test_an_iterable_of_keys_may_not_close_what_looks_them_up(tmp_path, path):
    table = splitpoint.open(path)
    words = splitpoint.Dictionary.build({"a": "1"}, tmp_path / "words.spd")

    class Last:
        """An object that closes a handle when it is freed."""

        def __init__(self, close):
            self.close = close
            self.self = self

        def __del__(self):
            try:
                self.close()
            except splitpoint.InUseError:
                refused.append(True)

    for handle, calls in ((table, ["close"]), (words, ["close", "reload", "update"])):
        for name in calls:
            call = (lambda: words.update({"b": "2"})) if name == "update" else getattr(handle, name)
            refused: list[bool] = []

            def keys():
                yield "a"
                with pytest.raises(splitpoint.InUseError, match="during its own operation"):
                    call()
                Last(call)
                gc.collect()
                yield "b"

            assert len(handle.get_many(keys())) == 2 and not handle.closed
            assert refused == [True]
    assert len(words) == 1
    table.close()
    words.close()


def test_an_iterable_of_keys_may_wait_for_a_thread_that_closes(path):
    table = splitpoint.open(path)

    def keys():
        yield "a"
        thread = threading.Thread(target=table.close)
        thread.start()
        thread.join()
        yield "b"

    with pytest.raises(splitpoint.ClosedError):
        table.get_many(keys())


def test_an_iterator_is_not_advanced_by_its_own_callback(tmp_path):
    old = splitpoint.Dictionary.build(((str(i), "1") for i in range(1000)), tmp_path / "old.spd")
    new = splitpoint.Dictionary.build(((str(i), "2") for i in range(1000)), tmp_path / "new.spd")

    def progress(*_):
        with pytest.raises(splitpoint.InUseError, match="at work already"):
            next(changes)
        seen.append(True)

    seen: list[bool] = []
    changes = old.diff(new, progress=progress)
    assert len(list(changes)) == 1000 and seen


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a subinterpreter of Python 3.12 refuses the module")
@pytest.mark.parametrize("end", ["", "atexit.register(table.close)", "atexit.register(table.sync)"])
def test_a_subinterpreter_ends_with_the_process(path, end):
    inner = f"""
import sys
sys.path[:] = {sys.path!r}
import atexit, splitpoint
table = splitpoint.open({path!r})
table["a"] = "1"
{end}
"""
    program = "import _xxsubinterpreters as interpreters, sys\n"
    program += "interpreter = interpreters.create()\ninterpreters.run_string(interpreter, sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, inner], check=True, timeout=50)
    with splitpoint.open(path) as table:
        assert dict(table) == {b"a": b"1"}


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(120)
def test_ten_thousand_opens_and_closes_leak_nothing(tmp_path):
    path = str(tmp_path / "table.spt")
    with splitpoint.open(path) as table:
        table.update((str(i), b"v") for i in range(100))
    words = str(tmp_path / "words.spd")
    splitpoint.Dictionary.build({"a": "1"}, words).close()

    def cycle(i):
        with splitpoint.open(path, "r" if i % 10 else "w") as table:
            assert table[b"1"] == b"v"
            iterator = iter(table)
            next(iterator)
        with splitpoint.Dictionary(words) as dictionary:
            assert dictionary.get_many([b"a"]) == [b"1"]
        if i % 3 == 0:
            splitpoint.Dictionary(words)  # closed when freed
            splitpoint.memory(page_bytes=512)[b"a"] = b"1"

    for i in range(1000):
        cycle(i)
    gc.collect()
    files, memory, threads = len(os.listdir("/proc/self/fd")), resident_bytes(), threading.active_count()
    for i in range(10_000):
        cycle(i)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == files
    assert threading.active_count() == threads
    # 10,000 leaks of one page of a file would be 40 MB.
    assert resident_bytes() - memory < 8 << 20


def test_exceptions_and_iterators_leak_nothing(table):
    table.update((str(i), bytes(100)) for i in range(1000))
    keys = [str(i) for i in range(2000)]

    def cycle():
        for key in ("x", 5):
            with pytest.raises((KeyError, TypeError)):
                table[key]
        with pytest.raises(TypeError):
            table.update_many([("a", "b"), ("c", 5)])
        next(iter(table.items()))
        table.get_many(keys, b"default")
        list(table.values())

    for _ in range(100):
        cycle()
    gc.collect()
    before, memory = len(gc.get_objects()), resident_bytes()
    for _ in range(1000):
        cycle()
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert resident_bytes() - memory < 8 << 20


def test_what_is_there_twice_is_counted_once():
    value = bytes(1000)
    table = splitpoint.memory()
    before = sys.getrefcount(value)
    table[b"a"] = value
    table.update_many([(b"b", value)] * 100)
    table.get_many([b"x"] * 100, value)
    table.get(b"x", value)
    assert sys.getrefcount(value) == before
