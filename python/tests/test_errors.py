"""Errors say what, where and what to do, in exceptions that callers already catch."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
import splitpoint
import splitpoint.lab
from splitpoint.errors import _CLASSES, ErrorKind, of_kind


def test_every_kind_has_a_class_of_its_own_that_is_built_in_too():
    classes = {kind: type(of_kind(kind, "what")) for kind in _CLASSES}
    assert len(set(classes.values())) == len(_CLASSES) and set(ErrorKind) - set(_CLASSES) == {ErrorKind.NOT_FOUND}
    built_in = (KeyError, OSError, ValueError, MemoryError, RuntimeError)
    for kind, cls in classes.items():
        error = of_kind(kind, "users.spt: what happened", "Do this.")
        assert issubclass(cls, splitpoint.Error) and issubclass(cls, built_in)
        assert str(error) == "users.spt: what happened. Do this."
        assert (error.kind, error.message, error.hint) == (kind, "users.spt: what happened", "Do this.")
        assert getattr(splitpoint, cls.__name__) is cls
        if isinstance(error, OSError):
            assert isinstance(error.errno, int)


def test_kinds_have_the_numbers_of_the_library():
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src", "error.rs")
    with open(source, encoding="utf-8") as file:
        lines = [line.strip().rstrip(",").split(" = ") for line in file if " = " in line and line.strip()[0].isupper()]
    numbers = {"".join(name.lower().split("_")): int(number) for name, number in lines if number.isdigit()}
    ours = {kind.name.lower().replace("_", ""): int(kind) for kind in ErrorKind if 0 < kind < 200}
    assert ours == numbers and len(ours) == 21


def test_a_missing_file_and_directory(tmp_path):
    for path, flag in ((tmp_path / "a.spt", "r"), (tmp_path / "a.spt", "w"), (tmp_path / "no" / "a.spt", "c")):
        with pytest.raises(FileNotFoundError, match=r"a\.spt") as raised:
            splitpoint.open(path, flag)
        assert raised.value.kind is ErrorKind.IO
    with pytest.raises(FileNotFoundError):
        splitpoint.Dictionary(tmp_path / "a.spd")


def test_an_exception_survives_the_end_of_the_table_that_raised_it(path):
    # The table is a temporary value: it is dropped while the exception propagates.
    with pytest.raises(KeyError):
        splitpoint.open(path)["absent"]
    with pytest.raises(TypeError):
        splitpoint.open(path).get(3)
    with pytest.raises(KeyError):
        splitpoint.memory()["absent"]


def test_no_permission(tmp_path):
    path = tmp_path / "a.spt"
    splitpoint.open(path).close()
    program = "import os, sys, splitpoint\nos.setuid(65534)\nsplitpoint.open(sys.argv[1], sys.argv[2])"
    if os.getuid() == 0:
        pytest.skip("root may read everything, and another user may not find this Python")
    os.chmod(path, 0)
    with pytest.raises(PermissionError) as raised:
        splitpoint.open(path)
    assert isinstance(raised.value, splitpoint.IoError)
    del program


def test_files_that_are_no_tables(tmp_path):
    path = tmp_path / "a.spt"
    path.write_bytes(b"something else entirely" * 1000)
    refusals = [(splitpoint.open, splitpoint.NotATableError), (splitpoint.Dictionary, splitpoint.NotADictionaryError)]
    for open_, refusal in refusals:
        with pytest.raises(refusal, match=r"a\.spt") as raised:
            open_(path)
        assert isinstance(raised.value, ValueError)
    with pytest.raises(splitpoint.NotATableError):
        splitpoint.open(tmp_path, "r")
    assert path.read_bytes().startswith(b"something else")


def test_damage_is_an_error_and_never_a_wrong_answer(tmp_path):
    path = tmp_path / "a.spt"
    with splitpoint.open(path, page_bytes=512) as table:
        table.update((str(i), str(i) * 10) for i in range(2000))
    whole = path.read_bytes()
    seen = set()
    for at in range(0, len(whole), len(whole) // 150):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            with splitpoint.open(path) as table:
                faults = table.verify()
                for i in range(0, 2000, 7):
                    assert table.get(str(i)) in (None, (str(i) * 10).encode())
                assert faults or dict(table) == {str(i).encode(): (str(i) * 10).encode() for i in range(2000)}
        except splitpoint.Error as error:
            seen.add(error.kind)
        except KeyError:
            pytest.fail("a damaged page answered that a key is absent")
    assert ErrorKind.CORRUPT in seen


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path):
    program = """
import errno, resource, splitpoint, sys
table = splitpoint.open(sys.argv[1], log_bytes=1 << 20)
table[b"first"] = b"1"
resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))
stored = 0
try:
    while True:
        table[str(stored)] = b"x" * 1000
        stored += 1
except splitpoint.DiskFullError as error:
    assert isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG), error.errno
    assert error.kind is splitpoint.ErrorKind.DISK_FULL and error.hint
assert 100 < stored < (4 << 20) // 1000, stored
assert table[b"first"] == b"1" and len(table) == stored + 1
try:
    splitpoint.Dictionary.build(((str(i), b"x" * 1000) for i in range(10_000)), sys.argv[1] + ".spd")
except splitpoint.DiskFullError:
    pass
else:
    raise AssertionError("a build that needs 10 MB")
print(stored)
"""
    path = str(tmp_path / "a.spt")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with splitpoint.open(path) as table:
        assert len(table) == int(done.stdout) + 1 and table.verify() == []
    assert os.listdir(tmp_path) == ["a.spt"]


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
def test_a_full_file_system(tmp_path):
    mounted = tmp_path / "small"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(mounted)]
    try:
        if subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("a file system cannot be mounted here")
    except FileNotFoundError:
        pytest.skip("mount is not installed")
    try:
        table = splitpoint.open(mounted / "a.spt", log_bytes=1 << 20)
        stored = 0
        with pytest.raises(splitpoint.DiskFullError, match="No space left"):
            while True:
                table[str(stored)] = bytes(1000)
                stored += 1
        assert stored > 100
        with pytest.raises(splitpoint.DiskFullError):
            table.backup(mounted / "copy.spt")
        subprocess.run(["mount", "-o", "remount,size=64m", str(mounted)], check=True)
        table[b"room"] = b"again"
        table.close()
        with splitpoint.open(mounted / "a.spt") as table:
            assert len(table) >= stored and table.verify() == []
            assert all(table[str(i)] == bytes(1000) for i in range(stored))
            table[b"there is room"] = b"again"
        assert os.listdir(mounted) == ["a.spt"]
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_salvage_and_restore(tmp_path):
    path, copy = tmp_path / "a.spt", tmp_path / "a.bak"
    pairs = {str(i).encode(): str(i).encode() * 10 for i in range(2000)}
    with splitpoint.open(path, page_bytes=512) as table:
        table.update(pairs)
        table.backup(copy)
    whole = path.read_bytes()
    for at in range(8192, len(whole), 40_000):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        found, phases = splitpoint.memory(), []
        report = splitpoint.salvage(path, found, progress=lambda *figures: phases.append(figures))
        assert set(found.items()) <= set(pairs.items()) and report.verified + report.unverified == len(found)
        assert report.missing == 2000 - len(found) and bool(report.missing) <= bool(report.faults)
        assert phases[-1][0] == "salvage" and report.is_whole == (len(found) == 2000 and report.unverified == 0)
    with pytest.raises(splitpoint.InvalidArgumentError):
        splitpoint.restore(copy, path)
    splitpoint.restore(copy, path, overwrite=True)
    with splitpoint.open(path) as table:
        assert table == pairs
    copy.write_bytes(whole[:9000])
    with pytest.raises(splitpoint.Error):
        splitpoint.restore(copy, path, overwrite=True)
    with splitpoint.open(path) as table:
        assert table == pairs


def test_every_exception_of_the_package_is_an_error_of_it(tmp_path):
    table = splitpoint.memory()
    table["a"] = "1"
    uses = [
        (KeyError, lambda: table["x"]),
        (KeyError, lambda: table.pop("x")),
        (KeyError, lambda: table.__delitem__("x")),
        (KeyError, splitpoint.memory().popitem),
        (TypeError, lambda: table[5]),
        (TypeError, lambda: table.update(5)),
        (TypeError, lambda: table.compact(progress=5)),
        (TypeError, lambda: splitpoint.open(5)),
        (TypeError, lambda: splitpoint.memory(other=5)),
        (ValueError, lambda: table["\ud800"]),
        (UnicodeEncodeError, lambda: table["\ud800"]),
        (ValueError, lambda: table.update([("a",)])),
        (ValueError, lambda: splitpoint.open(tmp_path / "a", "x")),
        (ValueError, lambda: splitpoint.open(tmp_path / "a", "c", -1)),
        (FileNotFoundError, lambda: splitpoint.open(tmp_path / "a", "r")),
        (KeyError, lambda: splitpoint.lab.hash_functions(["a"], ["xxh3"], speed=False)["none"]),
        (ValueError, lambda: splitpoint.lab.hash_functions(["a"], ["none"])),
    ]
    for built_in, use in uses:
        with pytest.raises(built_in) as raised:
            use()
        error = raised.value
        assert isinstance(error, splitpoint.Error), error
        assert isinstance(error.kind, ErrorKind) and error.message and (error.hint is None or error.hint)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.kind, again.args) == (type(error), str(error), error.kind, error.args)
    with pytest.raises(KeyError) as raised:
        table["x"]
    assert raised.value.args == ("x",) and str(raised.value) == "'x'"


def test_an_unknown_kind_of_a_later_library_is_still_an_error():
    assert isinstance(of_kind(199, "something new"), splitpoint.IoError)
