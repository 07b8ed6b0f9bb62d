"""A table behaves as users of ``dict``, ``dbm`` and ``shelve`` expect."""

from __future__ import annotations

import collections.abc
import os
import shelve
import stat

import pytest
import splitpoint


def test_an_emptied_table_is_made_for_the_expected_pairs(path):
    for flag in "cn":
        with splitpoint.open(path, flag, expected_len=100_000) as table:
            assert table.stats().buckets > 1000, flag
            table["alice"] = "1"


def test_it_is_a_mutable_mapping(table):
    assert isinstance(table, collections.abc.MutableMapping)
    table["a"] = "1"
    table[b"b"] = bytearray(b"2")
    table[memoryview(b"c")] = memoryview(b"xxyyzz")[::2]
    assert dict(table) == {b"a": b"1", b"b": b"2", b"c": b"xyz"}
    assert table == {b"a": b"1", b"b": b"2", b"c": b"xyz"}
    assert table != {b"a": b"1"}
    assert (len(table), bool(table)) == (3, True)
    assert ("a" in table, b"d" in table) == (True, False)
    assert sorted(table.keys()) == [b"a", b"b", b"c"]
    assert sorted(table.values()) == [b"1", b"2", b"xyz"]
    assert sorted(table.items()) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"xyz")]
    assert (b"a", b"1") in table.items() and b"1" in table.values()
    assert table.keys() & {b"a", b"z"} == {b"a"}
    del table["a"]
    assert table.pop(b"b") == b"2"
    assert table.pop(b"b", None) is None
    assert table.popitem() == (b"c", b"xyz")
    assert (len(table), bool(table), table.firstkey()) == (0, False, None)


def test_what_is_absent_is_a_key_error_with_the_key(table):
    for absent in (lambda: table[b"x"], lambda: table.__delitem__(b"x"), lambda: table.pop(b"x")):
        with pytest.raises(KeyError) as raised:
            absent()
        assert raised.value.args == (b"x",)
    with pytest.raises(KeyError):
        table.popitem()


@pytest.mark.parametrize("wrong", [1, None, 1.5, [b"a"], object()])
def test_other_types_are_a_type_error(table, wrong):
    for use in (
        lambda: table[wrong],
        lambda: table.__setitem__(wrong, b""),
        lambda: table.__setitem__(b"a", wrong),
        lambda: table.get(wrong),
        lambda: wrong in table,
        lambda: table.get_many([b"a", wrong]),
        lambda: table.update_many([(b"a", wrong)]) if wrong is not None else table[None],
    ):
        with pytest.raises(TypeError):
            use()
    assert len(table) == 0


def test_text_that_is_no_utf8_is_a_unicode_error(table):
    with pytest.raises(UnicodeEncodeError):
        table["\ud800"] = b""


def test_empty_and_large_keys_and_values(table):
    large = os.urandom(1 << 20)
    table[b""] = b""
    table[b"large"] = large
    table[large] = b"of a large key"
    assert (table[b""], table[b"large"] == large, table[large]) == (b"", True, b"of a large key")
    assert sorted(map(len, table)) == [0, 5, 1 << 20]
    assert table.append(b"large", large) == 2 << 20
    assert table[b"large"] == large + large
    assert table.verify() == []


def test_update_takes_what_dict_update_takes(table):
    class Keyed:
        def keys(self):
            return ["k"]

        def __getitem__(self, key):
            return key * 2

    table.update({"a": "1"}, b="2")
    table.update([("c", "3"), ["d", "4"]])
    table.update(Keyed())
    table.update(e="5")
    table.update()
    assert dict(table) == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4", b"k": b"kk", b"e": b"5"}
    for wrong in (5, [1], ["ab"]):
        with pytest.raises(TypeError):
            table.update(wrong)
    for wrong in ([(b"a",)], [(b"a", b"b", b"c")], [[]]):
        with pytest.raises(ValueError, match="pair 1: has . items; 2 are required"):
            table.update(wrong)


def test_atomic_calls(table):
    assert table.insert_new(b"a", b"1") and not table.insert_new(b"a", b"2")
    assert table.replace(b"a", b"3") == b"1"
    assert table.setdefault(b"a", b"9") == b"3"
    assert table.setdefault(b"new") == b""
    assert table.compare_and_set(b"a", b"3", b"4") and not table.compare_and_set(b"a", b"3", b"5")
    assert not table.compare_and_set(b"a", None, b"5")
    assert table.compare_and_set(b"a", b"4", None) and b"a" not in table
    assert table.compare_and_set(b"a", None, None)
    assert table.remove(b"new") and not table.remove(b"new")
    assert table.append_many([(b"l", b"1"), (b"l", b"23")]) == [1, 3]


def test_get_many_gives_a_list_in_order(table):
    table.update((str(i), str(i)) for i in range(10_000))
    keys = [str(i).encode() for i in range(20_000)]
    assert table.get_many(keys) == keys[:10_000] + [None] * 10_000
    assert table.get_many(iter(["1", b"x"]), b"-") == [b"1", b"-"]
    assert table.get_many([]) == []


def test_a_batch_is_all_or_nothing(table):
    table[b"old"] = b"1"
    with table.batch() as batch:
        batch[b"a"] = b"1"
        batch.append(b"a", b"2")
        batch.insert_new(b"old", b"2")
        batch.put("c", "3")
        del batch[b"absent"]
        assert (len(batch), dict(table)) == (5, {b"old": b"1"})
    assert dict(table) == {b"old": b"1", b"a": b"12", b"c": b"3"}
    with pytest.raises(ZeroDivisionError), table.batch() as batch:
        batch.remove(b"old")
        1 / 0
    assert table[b"old"] == b"1"
    with pytest.raises(ValueError, match="begin another"):
        batch.put(b"x", b"y")
    with table.batch() as batch:
        batch[b"x"] = b"y"
        batch.discard()
    assert b"x" not in table


def test_a_scan_resumes_from_its_cursor(table):
    table.update((str(i), b"") for i in range(5000))
    scan, seen = table.scan(), []
    while scan.cursor is not None:
        seen += [key for key, _ in (next(scan, (None, None)) for _ in range(7)) if key is not None]
        scan = table.scan(scan.cursor) if scan.cursor is not None else scan
    assert len(seen) == 5000 and set(seen) == {str(i).encode() for i in range(5000)}
    assert next(scan, None) is None


def test_iteration_goes_on_while_the_table_changes(table):
    stay = {f"stay {i}".encode() for i in range(2000)}
    table.update((key, b"") for key in stay)
    seen = []
    for i, key in enumerate(table):
        seen.append(key)
        table[f"new {i}"] = bytes(100)
        table.remove(f"new {i // 2}")
    assert [key for key in seen if key in stay].__len__() == len(stay)
    assert set(seen) >= stay
    for key in table:
        del table[key]
    assert len(table) == 0


def test_firstkey_and_nextkey_walk_and_delete(table):
    keys = {str(i).encode() for i in range(500)}
    table.update((key, b"") for key in keys)
    walked, key = [], table.firstkey()
    while key is not None:
        walked.append(key)
        key = table.nextkey(key)
    assert walked == list(table) and set(walked) == keys
    key = table.firstkey()
    while key is not None:
        del table[key]
        key = table.nextkey(key)
    assert len(table) == 0


def test_firstkey_and_nextkey_with_equal_hashes():
    # sdbm's function has 32 bits; these keys share all of them.
    with splitpoint.memory(hash="sdbm") as table:
        a, b = b"\x00", b"\x00\x00"
        table.update({a: b"", b: b"", b"other": b""})
        walked, key = [], table.firstkey()
        while key is not None:
            walked.append(key)
            assert len(walked) <= 3
            key = table.nextkey(key)
        assert sorted(walked) == sorted([a, b, b"other"])


# The requirements of CPython's own tests of dbm for every module.

DBM = {b"a": b"Python:", b"b": b"Programming", b"c": b"the", b"d": b"way", b"f": b"Guido", b"g": b"intended"}


def test_dbm_flags(path):
    for flag in "rw":
        with pytest.raises(OSError):
            splitpoint.open(path, flag)
        assert not os.path.exists(path)
    with splitpoint.open(path, "n") as table:
        table.update(DBM)
    with splitpoint.open(path, "r") as table:
        assert (table.readonly, dict(table)) == (True, DBM)
        for change in (lambda: table.__setitem__(b"x", b""), lambda: table.__delitem__(b"a"), table.clear):
            with pytest.raises(splitpoint.error):
                change()
    with splitpoint.open(path, "w") as table:
        table[b"x"] = b"y"
    with splitpoint.open(path, "c") as table:
        assert dict(table) == {**DBM, b"x": b"y"}
    with splitpoint.open(path, "n") as table:
        assert len(table) == 0
    for flag in ("", "x", "rw", "rf"):
        with pytest.raises(ValueError, match="'c' to create"):
            splitpoint.open(path, flag)


def test_dbm_paths_of_every_type(tmp_path):
    for path in (str(tmp_path / "a"), os.fsencode(tmp_path / "b"), tmp_path / "c"):
        with splitpoint.open(path) as table:
            table[b"k"] = b"v"
        assert os.path.exists(path)


def test_dbm_mode_is_that_of_the_file_and_of_what_lies_beside_it(path, tmp_path):
    before = os.umask(0o022)
    try:
        with splitpoint.open(path, "c", 0o600) as table:
            table[b"secret"] = bytes(5000)
            modes = {name: stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in os.listdir(tmp_path)}
        assert len(modes) > 1 and set(modes.values()) == {0o600}, modes
        with splitpoint.open(path, "n"):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with splitpoint.open(path + "2", "c"):
            assert stat.S_IMODE(os.stat(path + "2").st_mode) == 0o644
    finally:
        os.umask(before)


def test_n_replaces_a_table_and_nothing_else(path, tmp_path):
    with splitpoint.open(path, "n", page_bytes=512) as table:
        table[b"a"] = b"1"
        with pytest.raises(splitpoint.LockedError):
            splitpoint.open(path, "n")
        assert table[b"a"] == b"1"
    with splitpoint.open(path, "n", page_bytes=4096) as table:
        assert (len(table), table.stats().page_bytes) == (0, 4096)
    other = tmp_path / "letter.txt"
    other.write_text("Dear reader, " * 1000)
    with pytest.raises(splitpoint.NotATableError):
        splitpoint.open(other, "n")
    assert other.read_text().startswith("Dear reader")


def test_shelve_keeps_objects(path):
    with shelve.Shelf(splitpoint.open(path), writeback=True) as shelf:
        shelf["list"] = [1]
        shelf["list"].append(2)
        shelf["dict"] = {"a": (1, 2)}
        shelf.sync()
        assert sorted(shelf) == ["dict", "list"]
        del shelf["dict"]
    with shelve.Shelf(splitpoint.open(path, "r")) as shelf:
        assert dict(shelf) == {"list": [1, 2]}
        assert shelf.get("dict") is None and "list" in shelf and len(shelf) == 1


def test_what_was_closed_refuses(table, path):
    table[b"a"] = b"1"
    scan, batch = table.scan(), table.batch()
    batch[b"b"] = b""
    table.close()
    table.close()
    assert table.closed and repr(table).endswith(", closed>")
    uses = [
        lambda: table[b"a"],
        lambda: table.__setitem__(b"a", b""),
        lambda: len(table),
        lambda: next(scan),
        lambda: list(table),
        lambda: table.update({b"a": b""}),
        lambda: table.get_many([b"a"]),
        lambda: table.append_many([(b"a", b"")]),
        table.sync,
        table.batch,
        table.clear,
        table.stats,
        table.counters,
        table.verify,
        table.compact,
        batch.commit,
        lambda: table.backup(path + "2"),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="is closed") as raised:
            use()
        assert raised.value.kind is splitpoint.ErrorKind.CLOSED


def test_a_table_may_be_closed_by_what_it_reads(path):
    table = splitpoint.open(path)

    def pairs():
        for i in range(100_000):
            if i == 50_000:
                table.close()
            yield str(i), "value"

    with pytest.raises(splitpoint.ClosedError):
        table.update_many(pairs())
    with splitpoint.open(path) as table:
        assert 0 < len(table) < 60_000


def test_the_first_pair_is_found_without_passing_emptied_buckets(path):
    with splitpoint.open(path, expected_len=200_000, cache_bytes=1 << 20, durability="none") as table:
        table.update((str(i), b"") for i in range(300))
        before = table.counters().frames_read
        for key in iter(table.firstkey, None):
            assert next(iter(table)) == key
            assert table.popitem() == (key, b"")
        with pytest.raises(KeyError):
            table.popitem()
        # One pass reads some 1,000 frames; passes that begin anew would read 1,000 each.
        assert table.counters().frames_read - before < 5000


def test_the_first_pair_is_that_of_hash_order_after_any_change(table):
    changes = [
        lambda key: table.__setitem__(key, b""),
        lambda key: table.insert_new(key, b""),
        lambda key: table.replace(key, b""),
        lambda key: table.append(key, b"x"),
        lambda key: table.compare_and_set(key, None, b""),
        lambda key: table.update([(key, b"")]),
        lambda key: table.append_many([(key, b"")]),
        lambda key: put_by_batch(table, key),
        lambda key: table.setdefault(key),
    ]
    for round in range(20):
        for number, change in enumerate(changes):
            change(f"{round} {number}".encode())
            first = table.firstkey()
            assert first == next(iter(table)) == next(iter(table.items()))[0] == min_of_hash_order(table)
            if number % 3 == 0:
                assert table.popitem()[0] == first
    while table:
        assert table.popitem()[0] is not None
    assert list(table) == [] and table.firstkey() is None
    table[b"again"] = b""
    assert list(table) == [b"again"]


def put_by_batch(table, key):
    with table.batch() as batch:
        batch[key] = b""


def min_of_hash_order(table):
    """The first key of a scan that begins at a cursor, and so at no bound."""
    return next(table.scan(1))[0]


def test_a_subclass_chooses_its_arguments_and_its_items(path):
    class Numbers(splitpoint.Table):
        def __init__(self, path, base):
            super().__init__(path)
            self.base = base

        def __getitem__(self, key):
            return int(super().__getitem__(key), self.base)

        def __setitem__(self, key, value):
            super().__setitem__(key, format(value, "x"))

    with Numbers(path, 16) as numbers:
        numbers["a"] = 255
        numbers.update({"b": 16})
        numbers |= {"c": 1}
        assert (numbers["a"], numbers.get("b"), numbers.get("z", default=5)) == (255, 16, 5)
        assert dict(numbers.items()) == {b"a": 255, b"b": 16, b"c": 1} and sorted(numbers.values()) == [1, 16, 255]
        assert (numbers.pop("c"), numbers.pop("c", default=None), numbers.setdefault("d", 3)) == (1, None, 3)
        with pytest.raises(ValueError, match="opens it once"):
            numbers.__init__(path, 16)
    with splitpoint.open(path) as table:
        assert table[b"a"] == b"ff"


def test_a_table_that_was_not_opened_refuses():
    class Forgot(splitpoint.Table):
        def __init__(self):
            pass

    forgot = Forgot()
    assert forgot.closed and "closed" in repr(forgot) and forgot.path is None
    for use in (lambda: len(forgot), lambda: forgot["a"], lambda: list(forgot), lambda: forgot.hash_function):
        with pytest.raises(splitpoint.ClosedError):
            use()
    forgot.close()


def test_defaults_by_name_and_update_by_an_operator(table):
    table |= {"a": "1"}
    table |= [("b", "2")]
    assert (table.get("a", default=b"-"), table.get("c", default=b"-"), len(table)) == (b"1", b"-", 2)


def test_stats_and_counters_are_dataclasses(table):
    table.update((str(i), b"v" * 10) for i in range(1000))
    stats, counters = table.stats(), table.counters()
    assert (stats.pairs, counters.pairs, counters.puts) == (1000, 1000, 1000)
    assert sum(buckets for _, buckets in stats.histogram) == stats.buckets == counters.buckets
    assert stats.hash == table.hash_function[0] == "xxh3"


def test_options_reach_the_table(path):
    with splitpoint.open(path, page_bytes=512, fill_factor=4, hash="siphash13", seed=7, durability="sync") as table:
        assert table.hash_function == ("siphash13", 7)
        assert (table.stats().page_bytes, table.stats().fill_factor) == (512, 4)
    for options, error in (
        ({"page_bytes": 500}, splitpoint.InvalidArgumentError),
        ({"durability": "maybe"}, ValueError),
        ({"hash": "md5"}, ValueError),
        ({"pagebytes": 512}, TypeError),
        ({"page_bytes": "512"}, TypeError),
        ({"page_bytes": 2**40}, ValueError),
        ({"seed": -1}, ValueError),
        ({"hash": 5}, TypeError),
        ({"publish_counters": "yes"}, TypeError),
    ):
        with pytest.raises(error, match=next(iter(options))) as raised:
            splitpoint.memory(**options)
        assert isinstance(raised.value, splitpoint.Error)
    with pytest.raises(splitpoint.WrongHashError):
        splitpoint.open(path, hash="xxh3")


def test_compact_and_backup(path, tmp_path):
    phases = []
    with splitpoint.open(path) as table:
        table.update((str(i), bytes(100)) for i in range(50_000))
        for i in range(49_000):
            del table[str(i)]
        table.compact(progress=lambda phase, done, total: phases.append((phase, done, total)))
        table.reorganize()
        assert phases and phases[-1][0] == "compact"
        assert os.path.getsize(path) < 2 << 20
        copy = tmp_path / "copy.spt"
        table.backup(copy, progress=lambda phase, done, total: phases.append((phase, done, total)))
        assert phases[-1][0] == "backup" and phases[-1][1] == phases[-1][2]
        with pytest.raises(splitpoint.InvalidArgumentError):
            table.backup(copy)
        table.backup(copy, overwrite=True)
        with splitpoint.open(copy, "r") as copied:
            assert copied == table
        assert table.verify() == []


def test_the_callback_of_a_backup_may_use_the_table_and_not_close_it(table, tmp_path):
    # A table in memory: its writers wait for the end of a backup, so this callback must only read.
    table.update((str(i), bytes(1000)) for i in range(20_000))
    seen = []

    def progress(phase, done, total):
        seen.append(table.get(b"1") == bytes(1000))
        with pytest.raises(ValueError, match="progress callback"):
            table.close()

    table.backup(tmp_path / "copy.spt", progress=progress)
    assert seen and all(seen) and not table.closed


@pytest.mark.parametrize("durability", ["none", "os", "sync"])
def test_a_batch_chooses_its_durability(path, durability):
    with splitpoint.open(path, "n", durability="sync") as table:
        with table.batch(durability=durability) as batch:
            batch[b"alice"] = b"90"
        assert table[b"alice"] == b"90"
        with pytest.raises(splitpoint.InvalidArgumentError, match="durability"):
            table.batch(durability="twice")


@pytest.mark.parametrize(
    ("key", "value", "pairs"),
    [
        (int, "json", {-1: {"a": [1, None]}, 2**63 - 1: "ä"}),
        (str, int, {"": 0, "ä": -(2**63)}),
        (bytes, str, {b"\xff": "text"}),
        (str, "pickle", {"k": {1, 2, 3}}),
        (splitpoint.Codec("hex", bytes.fromhex, bytes.hex), None, {"00ff": b"bytes"}),
    ],
)
def test_a_typed_table_is_a_mapping_of_its_types(path, key, value, pairs):
    with splitpoint.open(path, key=key, value=value) as typed:
        typed.update(pairs)
        assert dict(typed) == pairs and dict(typed.items()) == pairs and len(typed) == len(pairs)
        assert sorted(map(repr, typed.values())) == sorted(map(repr, pairs.values()))
        first = next(iter(pairs))
        assert first in typed and typed.setdefault(first, pairs[first]) == pairs[first]
    with splitpoint.open(path, "r", key=key, value=value) as typed:
        assert typed[first] == pairs[first]
    with pytest.raises(splitpoint.WrongTypesError, match="made with the types"):
        splitpoint.open(path, key="json", value="json")
    with splitpoint.open(path, key=key, value=value) as typed:  # the refused open left it closed
        assert typed.pop(first) == pairs[first]
        with pytest.raises(splitpoint.AbsentKeyError):
            del typed[first]
        with pytest.raises(KeyError):
            typed[first]


def test_a_typed_table_removes_the_value_that_it_returns(table):
    changes = []

    def decode(data):
        if changes:
            changes.pop()()
        return int(data)

    typed = table.typed(value=splitpoint.Codec("decimal", lambda number: str(number).encode(), decode))
    # Another thread may change or remove the pair while its value is decoded.
    typed[b"a"] = 1
    changes.append(lambda: table.__setitem__(b"a", b"2"))
    assert (typed.pop(b"a"), len(table)) == (2, 0)
    typed[b"a"] = 1
    changes.append(lambda: table.__delitem__(b"a"))
    assert typed.pop(b"a", default=None) is None
    typed[b"a"] = 1
    changes.append(lambda: table.replace(b"a", b"2"))
    assert (typed.popitem(), len(table)) == ((b"a", 2), 0)
    typed[b"a"] = 1
    changes.append(lambda: table.__delitem__(b"a"))
    with pytest.raises(splitpoint.AbsentKeyError):
        typed.popitem()
    with pytest.raises(splitpoint.AbsentKeyError) as raised:
        typed.pop(b"a")
    assert raised.value.args == (b"a",)


def test_a_value_that_cannot_be_decoded_stays_until_a_typed_table_is_cleared(table):
    typed = table.typed(value=int)
    table[b"a"] = b"no int"
    for remove in (typed.popitem, lambda: typed.pop(b"a"), lambda: typed.pop(b"a", None)):
        with pytest.raises(ValueError):
            remove()
    assert dict(table) == {b"a": b"no int"}
    typed.clear()
    assert len(table) == 0


def test_an_empty_value_is_popped_of_a_typed_table(table):
    typed = table.typed(key=str)
    typed["a"] = typed["b"] = b""
    assert typed.pop("a", None) == b"" and typed.popitem() == ("b", b"")


def test_what_is_made_of_a_typed_table_keeps_its_types(path, tmp_path):
    with splitpoint.open(path, key=str, value=int) as typed:
        typed["alice"] = 30
        typed.table.freeze(tmp_path / "frozen.spd")
    with splitpoint.Dictionary(tmp_path / "frozen.spd") as dictionary:
        made = dictionary.thaw()
    salvaged = splitpoint.memory()
    splitpoint.salvage(path, salvaged)
    for table in (made, salvaged):
        with pytest.raises(splitpoint.WrongTypesError, match="str -> i64"):
            table.typed(key=int, value=int)
        assert dict(table.typed(key=str, value=int)) == {"alice": 30}


def test_a_typed_table_refuses_what_is_not_of_its_types(table):
    typed = table.typed(key=int, value=str)
    for key in ("1", 1.0, True, None):
        with pytest.raises(TypeError):
            typed[key] = "text"
    with pytest.raises(TypeError):
        typed[1] = 1
    with pytest.raises(ValueError, match="64 bits"):
        typed[2**63] = "text"
    assert len(typed) == 0
    for how in ("yaml", float, 7, []):
        with pytest.raises(splitpoint.InvalidArgumentError, match="expected int"):
            splitpoint.memory().typed(key=how)


WRONG = (
    {"key": float},
    {"value": "yaml"},
    {"key": "pickle"},
    {"key": splitpoint.Codec("n" * 60, bytes, bytes)},
    {"key": splitpoint.Codec("name", None, bytes)},
    {"page_bytes": 3},
    {"hash": "md5"},
    {"durability": "perhaps"},
    {"cache_bytes": -1},
    {"nonsense": 1},
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
@pytest.mark.parametrize("flag", ["n", "c", "w", "r"])
def test_arguments_are_checked_before_the_file_is_touched(path, tmp_path, flag, wrong):
    with pytest.raises((ValueError, TypeError)):
        splitpoint.open(path, flag, **wrong)
    assert os.listdir(tmp_path) == []
    with splitpoint.open(path) as table:
        table[b"a"] = b"1"
    with pytest.raises((ValueError, TypeError)):
        splitpoint.open(path, flag, **wrong)
    with pytest.raises(TypeError, match="flag is b'c', expected a str"):
        splitpoint.open(path, b"c")
    with pytest.raises(TypeError, match="mode is '600'"):
        splitpoint.open(path, flag, "600")
    for mode in (-1, 0o10000):
        with pytest.raises(ValueError):
            splitpoint.open(path, flag, mode)
    with splitpoint.open(path, "r") as table:
        assert dict(table) == {b"a": b"1"}


def test_n_with_counters_empties_the_table(path):
    with splitpoint.open(path) as table:
        table[b"a"] = b"1"
    with splitpoint.open(path, "n", publish_counters=True) as table:
        assert len(table) == 0


def test_equal_keys_of_json_are_one_key(table):
    typed = table.typed(key="json", value=int)
    alike = [
        {"a": 1, "b": [{"y": 2, "x": 3}]},
        {"b": [{"x": 3.0, "y": 2}], "a": 1.0},
        {"b": ({"x": 3, "y": 2},), "a": 1},
    ]
    for number, key in enumerate(alike):
        typed[key] = number
    assert len(typed) == 1 and [typed[key] for key in alike] == [2, 2, 2]
    assert next(iter(typed)) == alike[0]
    typed[0.0], typed[-0.0], typed[1e300] = 1, 2, 3
    assert typed[0] == 2 and len(typed) == 3
    for key in ({1: 2}, [{"a": {None: 1}}], {1, 2}):
        with pytest.raises(TypeError):
            typed[key] = 1
    with pytest.raises(ValueError):
        typed[float("nan")] = 1
    with pytest.raises(ValueError, match="equal objects as different bytes"):
        splitpoint.memory().typed(key="pickle")
