"""Dictionaries: from every source, to every kind of array, and changed in batches."""

from __future__ import annotations

import collections.abc
import copy
import os
import pickle
import subprocess
import sys

import pytest
import splitpoint
import splitpoint.lab
from splitpoint import Dictionary

PAIRS = {f"key {i}".encode(): f"value {i * i}".encode() for i in range(5000)}


@pytest.fixture
def spd(tmp_path):
    return str(tmp_path / "words.spd")


def test_it_is_a_mapping(spd):
    words = Dictionary.build(PAIRS, spd)
    assert isinstance(words, collections.abc.Mapping)
    assert (len(words), dict(words) == PAIRS, words == PAIRS, words != PAIRS) == (5000, True, True, False)
    assert (words["key 7"], words.get(b"none"), words.get(b"none", 5)) == (b"value 49", None, 5)
    assert b"key 7" in words and "none" not in words
    assert sorted(words.values()) == sorted(PAIRS.values()) and dict(words.items()) == PAIRS
    assert set(words.keys()) == set(PAIRS) == set(words)
    with pytest.raises(KeyError) as raised:
        words[b"none"]
    assert raised.value.args == (b"none",)
    for wrong in (5, None):
        with pytest.raises(TypeError):
            words[wrong]
    assert words.verify() == []
    words.close()
    words.close()
    for use in (lambda: words[b"a"], lambda: list(words), lambda: len(words), words.stats, words.reload):
        with pytest.raises(splitpoint.ClosedError):
            use()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"index": "trie", "bucket_keys": 64, "huffman_max": 16},
        {"index": "trie-sparse", "block_items": 8},
        {"index": "chunk", "effort": "fast"},
        {"index": "none", "page_bytes": 512, "filter": 8},
        {"compression": "lz4", "block_bytes": 4096},
        {"shards": 4, "threads": 2},
        {"hash": "siphash13", "seed": 5, "memory_bytes": 1 << 20},
    ],
)
@pytest.mark.parametrize("opening", [{}, {"map_data": True, "map_index": True}])
def test_options_of_a_build(spd, options, opening):
    Dictionary.build(PAIRS.items(), spd, **options)
    with Dictionary(spd, **opening) as words:
        assert words == PAIRS
        stats = words.stats()
        for name in ("index", "page_bytes", "compression", "shards", "hash"):
            assert getattr(stats, name) == options.get(name, getattr(stats, name))
        keys = [*PAIRS, b"none"]
        assert words.get_many(keys) == [*PAIRS.values(), None]
        # An update keeps the index and the filter.
        assert stats.filter_bits == options.get("filter", 0)
        assert words.update({"key 1": None, "new": "1"}) == 5000
        assert (words.stats().index, words.get("key 1"), words["new"]) == (stats.index, None, b"1")
        assert words.stats().filter_bits == stats.filter_bits
        assert words.verify() == []


def test_options_that_are_wrong(spd):
    for options, error in (
        ({"index": "btree"}, ValueError),
        ({"index": "page", "bucket_keys": 5}, ValueError),
        ({"indexx": "page"}, TypeError),
        ({"page_bytes": 5}, splitpoint.InvalidArgumentError),
    ):
        with pytest.raises(error):
            Dictionary.build(PAIRS, spd, **options)
    assert not os.path.exists(spd)


def test_duplicates(spd, tmp_path):
    twice = [("a", "1"), ("b", "2"), ("a", "3")]
    with pytest.raises(splitpoint.DuplicateKeyError, match="a") as raised:
        Dictionary.build(twice, spd)
    assert isinstance(raised.value, KeyError) and os.listdir(tmp_path) == []
    assert Dictionary.build(twice, spd, duplicates="first")["a"] == b"1"
    assert Dictionary.build(twice, spd, duplicates="last")["a"] == b"3"
    assert 'duplicates="first"' in str(raised.value)


def test_a_function_merges_the_values_of_repeated_keys(spd, tmp_path):
    twice = [("a", "1"), ("b", "2"), ("a", "-30"), ("a", "5")]
    assert dict(Dictionary.build(twice, spd, duplicates="sum")) == {b"a": b"-24", b"b": b"2"}
    joined = Dictionary.build(twice, spd, duplicates=lambda earlier, value: earlier + b"," + value)
    assert dict(joined) == {b"a": b"1,-30,5", b"b": b"2"}
    many = ((str(number % 1000), str(number)) for number in range(100_000))
    sums = Dictionary.build(many, spd, duplicates="sum", memory_bytes=1 << 25)
    assert len(sums) == 1000 and sums["7"] == str(sum(range(7, 100_000, 1000))).encode()
    before = dict(sums)
    wrong = [("sum", ValueError), (lambda earlier, value: 1 / 0, ZeroDivisionError), (lambda *_: 7, TypeError)]
    for duplicates, error in wrong:
        with pytest.raises(error):
            Dictionary.build([("a", "1"), ("a", "one")], spd, duplicates=duplicates)
    assert dict(Dictionary(spd)) == before and os.listdir(tmp_path) == [os.path.basename(spd)]


def test_integers_of_a_column_are_decimal_text(spd, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    kinds = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    wanted = {b"0": b"-1", b"7": b"-1", b"100": b"2"}
    for kind in kinds:
        frame = pa.table({"key": pa.array([0, 7, 100], kind), "value": pa.array([-1, -1, 2], pa.int8())})
        parquet.write_table(frame, tmp_path / "pairs.parquet")
        with splitpoint.memory() as table:
            table.update_many(frame)
            assert dict(table) == wanted
            assert table.get_many(frame["key"]).to_list() == [b"-1", b"-1", b"2"]
        for source in (frame, tmp_path / "pairs.parquet"):
            words = Dictionary.build(source, spd)
            assert dict(words) == wanted
            assert words.get_many(pa.array([100, None, 9])).to_list() == [b"2", None, None]
    for kind, extreme in (("uint64", 2**64 - 1), ("int64", -(2**63))):
        with splitpoint.memory() as table:
            table.update_many(pa.table({"k": pa.array([extreme], kind), "v": ["x"]}))
            assert list(table) == [str(extreme).encode()]
    pandas = pytest.importorskip("pandas")
    assert dict(Dictionary.build(pandas.DataFrame({"k": [1, 2], "v": ["a", "b"]}), spd)) == {b"1": b"a", b"2": b"b"}
    polars = pytest.importorskip("polars")
    assert dict(Dictionary.build(polars.DataFrame({"k": [1, 2], "v": [3, 4]}), spd)) == {b"1": b"3", b"2": b"4"}


def test_updates_in_place_and_elsewhere(spd, tmp_path):
    words, other = Dictionary.build(PAIRS, spd), Dictionary(spd)
    iterator = iter(other)
    next(iterator)
    assert words.update([(b"key 1", None), (b"key 2", b"other"), (b"key 2", b"last")], tmp_path / "new.spd") == 4999
    assert words == PAIRS
    assert Dictionary(tmp_path / "new.spd")["key 2"] == b"last"
    assert words.update({"new": "1"}) == 5001 and words["new"] == b"1"
    assert b"new" not in other
    assert other.reload() and not other.reload() and b"new" in other
    assert len(list(iterator)) == 4999
    with pytest.raises(FileNotFoundError):
        words.update({"a": "1"}, tmp_path / "no" / "new.spd")


def test_what_a_source_raises_ends_a_build_and_leaves_nothing(spd, tmp_path):
    def broken():
        yield from PAIRS.items()
        raise RuntimeError("the source broke")

    def refuse(phase, done, total):
        raise RuntimeError("no more")

    for source, progress in ((broken(), None), (PAIRS, refuse)):
        with pytest.raises(RuntimeError):
            Dictionary.build(source, spd, progress=progress)
        assert os.listdir(tmp_path) == []
    for source in ([("a",)], [1], 5, [("a", None)], [(None, "a")]):
        with pytest.raises((TypeError, ValueError)):
            Dictionary.build(source, spd)
        assert os.listdir(tmp_path) == []


def test_progress(spd):
    seen = []
    Dictionary.build(PAIRS, spd, progress=lambda *report: seen.append(report))
    assert ("read", 5000, None) in seen and seen[-1] == ("write", 5000, 5000)
    pytest.importorskip("tqdm")
    program = "import splitpoint, sys\nsplitpoint.Dictionary.build({'a': '1'}, sys.argv[1], progress=True)"
    done = subprocess.run([sys.executable, "-c", program, spd], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "read" in done.stderr and "write" in done.stderr, done.stderr


def test_a_frozen_table(spd, table):
    table.update(PAIRS)
    assert table.freeze(spd, index="chunk") == 5000
    assert Dictionary(spd) == table


# Arrays. A test whose library is missing is skipped.


def expected(keys):
    return [PAIRS.get(key) for key in keys]


@pytest.fixture(params=["table", "dictionary", "mapped", "shards"])
def store(request, spd):
    if request.param == "table":
        table = splitpoint.memory()
        table.update(PAIRS)
        return table
    Dictionary.build(PAIRS, spd, shards=3 if request.param == "shards" else 0)
    return Dictionary(spd, map_data=request.param == "mapped")


KEYS = [b"key 3", b"none", b"key 4999", b"", b"key 3"]


def test_keys_from_numpy(store):
    numpy = pytest.importorskip("numpy")
    values = store.get_many(numpy.array(KEYS))
    assert isinstance(values, splitpoint.Values)
    assert (values.to_list(), len(values)) == (expected(KEYS), 5)
    assert (values[0], values[-1], values[1], values[1:3]) == (b"value 9", b"value 9", None, [None, b"value 24990001"])
    assert repr(values).startswith("splitpoint.Values([b'value 9', None, ")
    with pytest.raises(IndexError):
        values[5]
    assert list(values.present) == [True, False, True, False, True]
    assert list(values.to_numpy()) == [b"value 9", b"", b"value 24990001", b"", b"value 9"]
    assert list(values.to_numpy(missing=b"?")[:2]) == [b"value 9", b"?"]
    with pytest.raises(ValueError):
        values.to_numpy("S3")
    with pytest.raises(ValueError, match="has 7 bytes"):
        values.to_numpy("V8")
    assert store.get_many(numpy.array(["key 3", "nöne"])).to_list() == [b"value 9", None]
    assert store.get_many(numpy.array([], dtype="S5")).to_list() == []
    assert store.get_many(numpy.array(KEYS * 4)[::2][::2]).to_list() == expected((KEYS * 4)[::4])
    for wrong in (numpy.array([KEYS]), numpy.array([b"a", None], dtype=object)):
        with pytest.raises((TypeError, ValueError)):
            store.get_many(wrong)


def test_numbers_as_keys_and_values(spd):
    numpy = pytest.importorskip("numpy")
    keys = numpy.arange(100_000, dtype=numpy.uint64)
    pairs = zip((key.tobytes() for key in keys), (value.tobytes() for value in (keys * 3).astype("<f8")))
    with Dictionary.build(pairs, spd) as numbers:
        values = numbers.get_many(keys[::-1])
        assert (values.to_numpy("<f8") == keys[::-1] * 3).all()
        values = numbers.get_many(numpy.array([5, 1 << 40, 7], dtype=">u8"))
        assert list(values.to_numpy("<f8", missing=-1)) == [15, -1, 21]


def test_keys_from_arrow_and_values_to_arrow(store):
    pa = pytest.importorskip("pyarrow")
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()):
        keys = pa.array([*KEYS, None]).cast(pa.binary()).cast(kind) if kind != pa.binary() else pa.array([*KEYS, None])
        values = store.get_many(keys)
        assert values.to_list() == [*expected(KEYS), None]
        assert pa.array(values).to_pylist() == [*expected(KEYS), None]
        assert store.get_many(keys[2:4]).to_list() == expected(KEYS[2:4])
        assert store.get_many(pa.chunked_array([keys, keys])).to_list() == [*expected(KEYS), None] * 2
    assert store.get_many(pa.array([b"key 3", b"none "], pa.binary(5))).to_list() == [b"value 9", None]
    coded = pa.array([*KEYS, None]).dictionary_encode()
    assert store.get_many(coded).to_list() == [*expected(KEYS), None]
    assert store.get_many(pa.nulls(3)).to_list() == [None] * 3
    with pytest.raises(TypeError, match="make texts of the column first"):
        store.get_many(pa.array([1.5, 2]))
    table = pa.table(store)
    assert table.schema.names == ["key", "value"]
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist())) == PAIRS
    table.validate(full=True)
    pa.array(store.get_many(pa.array(KEYS))).validate(full=True)


def test_keys_from_polars_and_pandas(store):
    polars = pytest.importorskip("polars")
    texts = ["key 3", "none", None, "key 9"]
    wanted = [b"value 9", None, None, b"value 81"]
    values = store.get_many(polars.Series(texts))
    assert values.to_list() == wanted
    assert polars.Series(values).to_list() == wanted
    assert dict(polars.from_arrow(store).struct.unnest().rows()) == PAIRS
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    assert store.get_many(pandas.Series(texts, dtype="string[pyarrow]")).to_list() == wanted


def test_a_closed_store_ends_its_streams(path):
    pa = pytest.importorskip("pyarrow")
    with splitpoint.open(path) as table:
        table.update((str(i), bytes(1000)) for i in range(100_000))
        reader = pa.RecordBatchReader.from_stream(table)
        reader.read_next_batch()
    with pytest.raises(pa.ArrowException, match="is closed"):
        reader.read_all()


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_are_streams_of_batches_that_are_bounded(spd, parts):
    pa = pytest.importorskip("pyarrow")
    pairs = {b"%d" % i: bytes([i]) * (1 << 20) for i in range(40)}

    class Part:
        def __init__(self, part):
            self.part = part

        def __arrow_c_stream__(self, requested_schema=None):
            return dictionary._part(self.part, parts)

    with splitpoint.Dictionary.build(pairs, spd) as dictionary:
        found = []
        for part in range(parts):
            for batch in pa.RecordBatchReader.from_stream(Part(part)):
                assert batch.nbytes < 10 << 20
                found.extend(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist()))
        assert len(found) == len(pairs) and dict(found) == pairs
        with pytest.raises(ValueError, match=f"part {parts} of {parts}"):
            dictionary._part(parts, parts)


@pytest.fixture
def frame():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"n": range(5000), "value": [*PAIRS.values()], "key": [*PAIRS.keys()]})


def test_sources_of_arrow(spd, frame):
    pa = pytest.importorskip("pyarrow")
    sources = [
        frame,
        frame.combine_chunks().to_batches()[0],
        frame.to_reader(max_chunksize=700),
        pa.RecordBatchReader.from_batches(frame.schema, iter(frame.to_batches(max_chunksize=11))),
    ]
    for source in sources:
        with Dictionary.build(source, spd, key="key", value="value") as words:
            assert words == PAIRS
    table = splitpoint.memory()
    assert table.update_many(frame.select(["key", "value"])) == 5000 and table == PAIRS
    with pytest.raises(ValueError):
        Dictionary.build(frame, spd, key="no", value="value")
    nulls = pa.table({"key": [b"a", b"key 1"], "value": [b"1", None]})
    with pytest.raises(ValueError, match="pair 2: the value is null"):
        Dictionary.build(nulls, spd)
    with Dictionary(spd) as words:
        assert words.update(nulls) == 5000 and "key 1" not in words
        assert words.update(pa.table({"key": [b"a"], "value": pa.nulls(1)})) == 4999


def test_an_object_of_arrow_that_is_used_up(spd, frame, tmp_path):
    pairs = frame.select(["key", "value"])
    batch = pairs.combine_chunks().to_batches()[0]
    capsules = {"__arrow_c_array__": batch.__arrow_c_array__(), "__arrow_c_stream__": pairs.__arrow_c_stream__()}
    for name, given in capsules.items():
        # The result of a library whose object can be read only once.
        once = type("Once", (), {name: lambda self, requested_schema=None, given=given: given})()
        with Dictionary.build(once, spd) as words:
            assert words == PAIRS
        for again in (lambda: Dictionary.build(once, tmp_path / "n.spd"), lambda: splitpoint.memory().update_many(once)):
            with pytest.raises(ValueError, match="has been read"):
                again()
    column = frame["key"].combine_chunks().__arrow_c_array__()
    once = type("Once", (), {"__arrow_c_array__": lambda self, requested_schema=None: column})()
    with Dictionary(spd) as words:
        assert len(words.get_many(once)) == len(PAIRS)
        with pytest.raises(ValueError, match="has been read"):
            words.get_many(once)
    assert os.listdir(tmp_path) == ["words.spd"]


def test_a_stream_that_fails(spd, frame, tmp_path):
    pa = pytest.importorskip("pyarrow")

    def batches():
        yield from frame.to_batches()
        raise RuntimeError("the source broke")

    class Wrapped:
        """Its stream has a message instead of an exception."""

        def __init__(self, reader):
            self.reader = reader

        def __arrow_c_stream__(self, requested_schema=None):
            return self.reader.__arrow_c_stream__()

    reader = lambda batches: pa.RecordBatchReader.from_batches(frame.schema, batches)
    with pytest.raises(RuntimeError, match="the source broke"):
        Dictionary.build(reader(batches()), spd, key="key", value="value")
    with pytest.raises(splitpoint.InvalidArgumentError, match="the source broke"):
        Dictionary.build(Wrapped(reader(batches())), spd, key="key", value="value")
    for raised in (KeyboardInterrupt(), SystemExit(3), MemoryError("no")):

        def raising(raised=raised):
            yield from frame.to_batches()
            raise raised

        for source in (reader(raising()), Wrapped(reader(raising()))):
            with pytest.raises(type(raised)) as got:
                Dictionary.build(source, spd, key="key", value="value")
            if isinstance(raised, SystemExit):
                assert got.value.code == 3
    assert os.listdir(tmp_path) == []


def test_columns_that_nobody_named_are_not_left_out(spd, frame, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(frame, tmp_path / "frame.parquet")
    sources = [frame, frame.to_reader(), tmp_path / "frame.parquet", pyarrow.parquet.ParquetFile(tmp_path / "frame.parquet")]
    for library in ("pandas", "polars"):
        if module := sys.modules.get(library):
            sources.append(frame.to_pandas() if library == "pandas" else module.from_arrow(frame))
    for make in (lambda: sources, lambda: [frame.to_reader()]):
        for source in make():
            for names in ({}, {"key": "key"}, {"value": "value"}):
                with pytest.raises(splitpoint.InvalidArgumentError, match="3 columns.*key= and value="):
                    Dictionary.build(source, spd, **names)
    two = frame.select(["key", "value"])
    for names in ({"key": "value"}, {"value": "key"}, {"key": "value", "value": "key"}):
        for source in (two, two.to_reader(), *([two.to_pandas()] if "pandas" in sys.modules else [])):
            with Dictionary.build(source, spd, **names) as words:
                assert words[b"value 49"] == b"key 7" and len(words) == 5000
    twice = pa.Table.from_arrays([two["key"], two["value"]], ["a", "a"])
    with pytest.raises(splitpoint.InvalidArgumentError, match="several columns"):
        Dictionary.build(twice, spd, key="a", value="a")


def test_what_is_no_bytes_in_arrow_is_refused_and_nulls_are_nulls(spd):
    pa = pytest.importorskip("pyarrow")

    class Address(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.binary(8), "some.address")

        def __arrow_ext_serialize__(self):
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, serialized):
            return cls()

    table = splitpoint.memory()
    addresses = pa.ExtensionArray.from_storage(Address(), pa.array([b"8 bytes."], pa.binary(8)))
    encoded = pa.DictionaryArray.from_arrays(pa.array([0]), addresses)
    for column in (addresses, encoded):
        for names in ({"k": column, "v": [b"1"]}, {"k": [b"1"], "v": column}):
            with pytest.raises(splitpoint.ArgumentTypeError, match="some.address"):
                table.update(pa.table(names))
    for keys in (addresses, pa.chunked_array([addresses])):
        with pytest.raises(splitpoint.ArgumentTypeError, match="some.address"):
            table.get_many(keys)
    rows = pa.StructArray.from_arrays([pa.array(["a", "b"]), pa.array(["1", "2"])], ["k", "v"], mask=pa.array([False, True]))
    for source in (rows, pa.chunked_array([rows])):
        with pytest.raises(ValueError, match="pair 2: the key is null"):
            table.update_many(source)
    assert len(table) == 0
    table["a"] = "1"
    for empty in ([], [None], [None, None]):
        column = pa.DictionaryArray.from_arrays(pa.array(empty, pa.int32()), pa.array([], pa.string()))
        assert list(table.get_many(column)) == empty
    assert list(table.get_many(pa.array([b"a" * 16], pa.uuid()))) == [None]


def test_what_is_no_bytes_in_polars_is_refused_and_nulls_are_nulls(spd):
    polars = pytest.importorskip("polars")
    objects = polars.Series("k", [object(), object()], dtype=polars.Object)
    table = splitpoint.memory()
    for frame in (polars.DataFrame({"k": objects, "v": ["1", "2"]}), polars.DataFrame({"k": ["1", "2"], "v": objects})):
        with pytest.raises(splitpoint.ArgumentTypeError, match="objects"):
            table.update(frame)
    appended = polars.DataFrame({"k": objects, "v": ["1", "2"]})
    for use in (table.get_many, splitpoint.lab.hash_functions, lambda _: table.append_many(appended)):
        with pytest.raises(splitpoint.ArgumentTypeError, match="objects"):
            use(objects)
    assert len(table) == 0
    assert list(table.get_many(polars.Series([None, None]))) == [None, None]
    with Dictionary.build({"a": "1", "b": "2"}, spd) as words:
        assert words.update(polars.DataFrame({"k": ["a"], "v": polars.Series([None])})) == 1 and dict(words) == {b"b": b"2"}


def test_what_is_no_bytes_in_numpy_is_refused_and_masked_keys_are_null(store):
    numpy = pytest.importorskip("numpy")
    masked = numpy.ma.array([b"key 1", b"key 2", b"none"], mask=[False, True, False])
    assert list(store.get_many(masked)) == [PAIRS[b"key 1"], None, None]
    assert list(store.get_many(numpy.ma.array([b"key 1"]))) == [PAIRS[b"key 1"]]
    numbers = numpy.ma.array([1, 2], mask=[True, True])
    assert list(store.get_many(numbers)) == [None, None]
    if hasattr(numpy.dtypes, "StringDType"):
        texts = numpy.array(["key 1", "none", "key 2"], dtype=numpy.dtypes.StringDType())
        assert list(store.get_many(texts)) == [PAIRS[b"key 1"], None, PAIRS[b"key 2"]]
        missing = numpy.array(["key 1", None], dtype=numpy.dtypes.StringDType(na_object=None))
        assert list(store.get_many(missing)) == [PAIRS[b"key 1"], None]
        assert list(store.get_many(numpy.ma.array(texts, mask=[1, 0, 0]))) == [None, None, PAIRS[b"key 2"]]
    for wrong in (
        numpy.array([b"key 1"], dtype=object),
        numpy.array([(b"key 1",)], dtype=[("name", object)]),
        numpy.array([1], dtype=numpy.longdouble),
    ):
        with pytest.raises(splitpoint.ArgumentTypeError):
            store.get_many(wrong)


def test_a_record_of_numpy_is_little_endian_as_a_number_is():
    numpy = pytest.importorskip("numpy")
    table = splitpoint.memory()
    table[b"\x01\x00\x00\x00"] = b"found"
    assert list(table.get_many(numpy.array([(1,)], dtype=[("n", ">i4")]))) == [b"found"]


def test_a_dictionary_keeps_what_it_opened_after_a_change_of_directory(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for place, shards in ((here, 2), (there, 2)):
        place.mkdir()
        Dictionary.build({place.name: "1"}, place / "words.spd").close()
        Dictionary.build({place.name: "1"}, place / "shards.spd", shards=shards).close()
    monkeypatch.chdir(here)
    for name in ("words.spd", "shards.spd"):
        monkeypatch.chdir(here)
        words = Dictionary(name)
        monkeypatch.chdir(there)
        assert not words.reload() and dict(words) == {b"here": b"1"}
        assert words.update({"new": "2"}) == 2 and dict(words) == {b"here": b"1", b"new": b"2"}
        assert all(Dictionary(shard.path).stats() for shard in words.shards())
        with Dictionary(there / name) as other:
            assert dict(other) == {b"there": b"1"}
        with Dictionary(here / name) as changed:
            assert len(changed) == 2
        assert os.fspath(words.path) == str(here / name)

    def moving():
        monkeypatch.chdir(there)
        yield "moved", "1"

    monkeypatch.chdir(here)
    (here / "temporary").mkdir()
    with Dictionary.build(moving(), "built.spd", temporary_directory="temporary") as built:
        assert dict(built) == {b"moved": b"1"} and (here / "built.spd").exists()
    assert not (there / "built.spd").exists()
    monkeypatch.chdir(here)
    with splitpoint.open("table.spt") as table:
        monkeypatch.chdir(there)
        assert os.fspath(table.path) == str(here / "table.spt")


def test_a_dictionary_pickles_as_its_path_and_options(spd):
    class Counted(Dictionary):
        def __init__(self, path, base):
            super().__init__(path, map_data=False)
            self.base = base

        def __getitem__(self, key):
            return self.base + int(super().__getitem__(key))

    globals()["Counted"] = Counted
    Counted.__qualname__ = "Counted"
    words = Dictionary.build({"a": "1"}, spd)
    counted = Counted(spd, 10)
    assert (counted["a"], counted.get("a"), counted.get("b", default=0), list(counted.values())) == (11, 11, 0, [11])
    for take in (lambda mapping: pickle.loads(pickle.dumps(mapping)), copy.copy, copy.deepcopy):
        with take(words) as again:
            assert dict(again) == {b"a": b"1"} and again._arguments() == words._arguments()
        with take(counted) as again:
            assert (again["a"], again.base, again._arguments()[1]) == (11, 10, False)
    program = "import pickle, sys\nprint(dict(pickle.load(sys.stdin.buffer)))"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(words), capture_output=True, timeout=60)
    assert done.stdout == b"{b'a': b'1'}\n", done.stderr
    words.close()
    with pytest.raises(splitpoint.ClosedError):
        pickle.dumps(words)


def test_a_thawed_dictionary_is_a_table(spd, path):
    with Dictionary.build(PAIRS, spd, hash="siphash13", seed=7) as words:
        phases = []
        with words.thaw(path, progress=lambda phase, done, total: phases.append((phase, done, total))) as table:
            assert table == PAIRS and table.hash_function == ("siphash13", 7) and table.verify() == []
        assert phases[-1] == ("thaw", 5000, 5000)
        with splitpoint.open(path) as table:
            table.clear()
            table["other"] = "stays"
        with words.thaw(path) as table:
            assert len(table) == 5001 and table["other"] == b"stays"
        with words.thaw(page_bytes=512) as table:
            assert table == PAIRS and table.path is None


def test_sources_of_parquet(spd, frame, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "pairs.parquet"
    parquet.write_table(frame, path, row_group_size=300)
    for source in (path, str(path), parquet.ParquetFile(path)):
        with Dictionary.build(source, spd, key="key", value="value") as words:
            assert words == PAIRS
    with pytest.raises(ValueError, match="no column 'k'"):
        Dictionary.build(path, spd, key="k")
    with pytest.raises(FileNotFoundError):
        Dictionary.build(tmp_path / "none.parquet", spd)


def test_sources_of_pandas(spd):
    pandas = pytest.importorskip("pandas")
    texts = {key.decode(): value.decode() for key, value in PAIRS.items()}
    for frame in (
        pandas.DataFrame({"key": list(texts), "value": list(texts.values())}),
        pandas.DataFrame({"key": list(PAIRS), "value": list(PAIRS.values())}),
        pandas.DataFrame({"value": list(texts.values()), "key": pandas.Categorical(list(texts))}, index=list(texts)),
    ):
        with Dictionary.build(frame, spd, key="key", value="value") as words:
            assert words == PAIRS
    with pytest.raises(ValueError, match="no column"):
        Dictionary.build(frame, spd, key="nothing")


def test_sources_of_polars(spd, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"key": list(PAIRS), "value": list(PAIRS.values())})
    texts = frame.select(polars.all().cast(polars.String))
    frame.write_parquet(tmp_path / "pairs.parquet")
    for source in (frame, texts, texts.lazy(), frame.with_columns(polars.col("key").cast(polars.String))):
        with Dictionary.build(source, spd) as words:
            assert words == PAIRS


def test_pandas_without_pyarrow(spd):
    pytest.importorskip("pandas")
    program = """
import sys
sys.modules["pyarrow"] = None
import pandas, splitpoint
frame = pandas.DataFrame({"k": ["a", "b"], "v": [1, 2]})
print(dict(splitpoint.Dictionary.build(frame, sys.argv[1])) == {b"a": b"1", b"b": b"2"})
try:
    splitpoint.Dictionary.build("x.parquet", sys.argv[1] + "2")
except (ImportError, OSError) as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program, spd], capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[0] == "True", done.stderr


def test_ranges_of_hash_order(spd):
    words = Dictionary.build(PAIRS, spd)
    middle = 1 << 63
    halves = list(words.range(stop=middle)), list(words.range(middle))
    assert dict(halves[0] + halves[1]) == PAIRS and all(2000 < len(half) < 3000 for half in halves)
    assert all(words.position(key) < middle for key, _ in halves[0])
    assert halves[0] + halves[1] == list(words.items()) == list(words.range(0, 1 << 64)) == list(words.range())
    at = words.position("key 7")
    assert list(words.range(at, at + 1)) == [(b"key 7", b"value 49")]
    assert list(words.range(5, 5)) == list(words.range(6, 5)) == list(words.range(1 << 64)) == []
    for start, stop in ((-1, None), (0, -1)):
        with pytest.raises(ValueError):
            words.range(start, stop)
    pairs = words.range()
    words.close()
    assert len(list(pairs)) == 5000, "an iterator keeps what it began with"
    with pytest.raises(splitpoint.ClosedError):
        words.range()


def test_differences_and_what_applies_them(spd, tmp_path):
    old = Dictionary.build(PAIRS, spd)
    newer_path, copy_path = str(tmp_path / "newer.spd"), str(tmp_path / "copy.spd")
    old.update([("key 1", ""), ("new", "added"), ("key 2", None)], newer_path, index="trie")
    with Dictionary(newer_path) as newer:
        changes = list(old.diff(newer))
        assert sorted(changes) == [
            splitpoint.Change(b"key 1", b"value 1", b""),
            splitpoint.Change(b"key 2", b"value 4", None),
            splitpoint.Change(b"new", None, b"added"),
        ]
        assert sorted(change.kind for change in changes) == ["added", "removed", "replaced"]
        assert sorted(newer.diff(old)) == sorted(splitpoint.Change(key, new, had) for key, had, new in changes)
        halves = [*old.diff(newer, stop=1 << 63), *old.diff(newer, 1 << 63)]
        assert halves == changes and list(old.diff(old)) == []
        seen = []
        assert len(list(old.diff(newer, progress=lambda *report: seen.append(report)))) == 3
        assert seen[-1] == ("compare", 10000, 10000)
        assert old.apply(old.diff(newer), copy_path, index="chunk") == len(newer) == 5000
        with Dictionary(copy_path) as copy:
            assert copy == newer and copy.stats().index == "chunk"
        # The files stay open for an iterator.
        walk = old.diff(newer)
    old.close()
    assert len(list(walk)) == 3


def test_differences_of_dictionaries_that_cannot_be_compared(spd, tmp_path):
    old = Dictionary.build(PAIRS, spd)
    for name, options in (("seed.spd", {"seed": 5}), ("shards.spd", {"shards": 2})):
        with Dictionary.build(PAIRS, str(tmp_path / name), **options) as other:
            with pytest.raises(splitpoint.InvalidArgumentError):
                old.diff(other)
    with pytest.raises(TypeError):
        old.diff({})
    old.close()
    with pytest.raises(splitpoint.ClosedError):
        old.diff(old)


def test_a_check_and_a_comparison_report_and_are_cancelled(spd, tmp_path):
    words = Dictionary.build(PAIRS, spd)
    seen = []
    assert words.verify(threads=2, progress=lambda *report: seen.append(report)) == []
    phase, done, total = seen[-1]
    assert phase == "verify" and 0 < done <= total

    class Enough(Exception):
        pass

    def stop(*_):
        raise Enough

    with pytest.raises(Enough):
        words.verify(progress=stop)
    with Dictionary.build(PAIRS, str(tmp_path / "same.spd")) as same, pytest.raises(Enough):
        list(words.diff(same, progress=stop))
