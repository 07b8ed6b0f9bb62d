"""splitpoint.dbm replaces dbm.ndbm and dbm.gnu."""

from __future__ import annotations

import dbm
import errno
import importlib.util
import os
import shelve
import subprocess
import sys

import pytest
import splitpoint
import splitpoint.dbm


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["ndbm", "gnu"])
def test_the_tests_of_python_pass(kind):
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_dbm_gnu") is None:
        pytest.skip("the tests of this Python are not installed (apt install libpython3-testsuite)")
    program = os.path.join(os.path.dirname(__file__), "upstream_dbm.py")
    done = subprocess.run([sys.executable, program, kind], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def test_flags(path):
    for flag in ("r", "w"):
        with pytest.raises(splitpoint.dbm.error) as raised:
            splitpoint.dbm.open(path, flag)
        assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, path)
    for flag in ("rw", "c", "w", "wf", "cs", "rsu", "r", "n"):
        with splitpoint.dbm.open(path, flag) as db:
            assert len(db) == 0
    for flag in ("", "x", "rx", "rr", "cw", "wr"):
        with pytest.raises(splitpoint.dbm.error) as raised:
            splitpoint.dbm.open(path, flag)
        assert isinstance(raised.value, (OSError, splitpoint.Error))
    assert splitpoint.dbm.library and set("rwcn") <= set(splitpoint.dbm.open_flags)


def test_pairs_are_popped(path):
    with splitpoint.dbm.open(path, "n") as db:
        db["a"], db["b"] = "", "1"
        assert (db.pop("a"), db.pop("a", None), db.pop("a", default=b"-")) == (b"", None, b"-")
        with pytest.raises(KeyError) as raised:
            db.pop("a")
        assert raised.value.args == ("a",)
        assert (db.popitem(), len(db)) == ((b"b", b"1"), 0)
        with pytest.raises(splitpoint.AbsentKeyError):
            db.popitem()


def test_every_failure_is_an_error_of_the_module(path, tmp_path):
    with splitpoint.dbm.open(path, "n") as db:
        db["a"] = "1"
        with pytest.raises(splitpoint.dbm.error) as raised:
            splitpoint.dbm.open(path, "w")
        assert raised.value.kind is splitpoint.ErrorKind.LOCKED
        for absent in (lambda: db["b"], lambda: db.__delitem__("b")):
            with pytest.raises(KeyError):
                absent()
        for wrong in (lambda: db[1], lambda: db.__setitem__("a", 1)):
            with pytest.raises(TypeError):
                wrong()
    other = tmp_path / "letter.txt"
    other.write_text("Dear reader")
    for flag in "rwcn":
        with pytest.raises(splitpoint.dbm.error):
            splitpoint.dbm.open(other, flag)
    uses = [db.keys, db.firstkey, db.sync, db.reorganize, db.clear, db.__enter__, lambda: len(db), lambda: db["a"]]
    uses += [db.popitem, lambda: db.pop("a"), lambda: db.pop("a", None)]
    for use in [*uses, lambda: db.__setitem__("a", "1"), lambda: "a" in db, lambda: list(db), lambda: bool(db)]:
        with pytest.raises(splitpoint.dbm.error) as raised:
            use()
        assert str(raised.value) == "DBM object has already been closed"
        assert raised.value.kind is splitpoint.ErrorKind.CLOSED
    db.close()


def test_dbm_and_shelve_use_it_by_default(path, tmp_path, monkeypatch):
    for name in ("_defaultmod", "_modules", "whichdb"):
        value = getattr(dbm, name)
        monkeypatch.setattr(dbm, name, dict(value) if isinstance(value, dict) else value)
    splitpoint.dbm.use_by_default()
    splitpoint.dbm.use_by_default()
    with shelve.open(path) as shelf:
        shelf["a"] = [1, 2]
    with splitpoint.open(path, "r") as table:
        assert len(table) == 1
    with dbm.open(path, "r") as db:
        assert isinstance(db, splitpoint.dbm.Database) and dbm.whichdb(path) == "splitpoint.dbm"
    dumb = str(tmp_path / "dumb")
    import dbm.dumb as module

    module.open(dumb, "c").close()
    assert dbm.whichdb(dumb) == "dbm.dumb"
    dbm.open(dumb, "w").close()
    assert dbm.whichdb(str(tmp_path / "nothing")) is None
