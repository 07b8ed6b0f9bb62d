"""Runs CPython's own tests of dbm and shelve over splitpoint.dbm: python upstream_dbm.py ndbm|gnu

It is a program of its own, because it replaces the interpreter's `_dbm` or `_gdbm` by the module.
"""

from __future__ import annotations

import os
import sys
import tempfile
import unittest

import splitpoint.dbm

#: Tests of something else, with the reason.
LEFT_OUT = {
    "test_reorganize": "the size of gdbm's file after each write; ours grows at checkpoints",
    "test_whichdb": "dbm's own whichdb, which knows the formats of its own modules",
    "test_whichdb_ndbm": "dbm's own whichdb",
}


def tests(suite: unittest.TestSuite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests(test)
        elif test.id().rpartition(".")[2] not in LEFT_OUT:
            yield test


def main(kind: str) -> int:
    native = {"ndbm": "_dbm", "gnu": "_gdbm"}[kind]
    sys.modules[native] = splitpoint.dbm
    for other in {"_dbm", "_gdbm", "dbm.sqlite3"} - {native}:
        sys.modules[other] = None  # not installed
    splitpoint.dbm.use_by_default()
    os.chdir(tempfile.mkdtemp())
    names = [f"test.test_dbm_{kind}", "test.test_dbm", "test.test_shelve"]
    suite = unittest.TestSuite(tests(unittest.defaultTestLoader.loadTestsFromNames(names)))
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    # The class of test_dbm that is about this module must be among them.
    assert result.testsRun > 40, result.testsRun
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
