"""A Python program with its data in dbm.ndbm or dbm.gnu, as installed: mapping.py MODULE NAME."""
import dbm
import importlib
import os
import shelve
import sys

module = importlib.import_module(sys.argv[1])
name = sys.argv[2]
file = name + ".pag" if sys.argv[1] == "dbm.ndbm" else name
count = 5000
with module.open(name, "c", 0o640) as words:
    assert len(words) == 0
    for i in range(count):
        words[f"word {i}"] = str(i) * 3
    words["empty"] = ""
    words["large"] = b"x" * 3_000_000
    assert words.get("absent") is None and "word 7" in words
assert os.stat(file).st_mode & 0o777 == 0o640
if sys.argv[1] == "dbm.ndbm":
    assert dbm.whichdb(name) == "dbm.ndbm"
with module.open(name, "r") as words:
    assert all(words[f"word {i}"] == (str(i) * 3).encode() for i in range(count))
    assert words["empty"] == b"" and len(words["large"]) == 3_000_000
    assert len(words.keys()) == count + 2 == len(words)
    try:
        words["new"] = "value"
    except module.error:
        pass
    else:
        raise AssertionError("a database opened for reading was changed")
with shelve.Shelf(module.open(name, "n")) as shelf:  # empties it
    assert len(shelf) == 0
    shelf["list"] = [1, 2, {"three": 3}]
    assert shelf["list"] == [1, 2, {"three": 3}]
