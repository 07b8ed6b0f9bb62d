"""Dictionaries that Spark writes and reads, on a cluster of two worker processes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import shutil
import threading
import time

import pytest
import splitpoint
from faulty import SLEEP_SECONDS, Faulty, failing_after_a_batch
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StructField, StructType
from splitpoint import spark as splitpoint_spark
from splitpoint.spark import position_udf, prepare, shard_udf, slot_udf, write

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]
SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"


def frame(spark, pairs, parts=3):
    rows = [(bytearray(key), None if value is None else bytearray(value)) for key, value in pairs]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, parts), "key binary, value binary")


def some(count, start=0, value=b"value"):
    return {b"user:%d" % i: b"%s %d" % (value, i * i) for i in range(start, start + count)}


def content(path):
    with splitpoint.Dictionary(path) as dictionary:
        assert dictionary.verify() == []
        assert len(dictionary) == len(dict(dictionary))
        return dict(dictionary)


def files(path):
    return {entry.name: entry.read_bytes() for entry in pathlib.Path(path).iterdir()}


def read(spark, path, schema="key binary, value binary"):
    return spark.read.format("splitpoint").schema(schema).load(path)


def test_functions_of_keys_agree_with_the_library(spark):
    lines = (FIXTURES / "positions.tsv").read_text().splitlines()
    vectors = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(vectors) > 20
    for hash, seed in sorted({(vector[1], int(vector[2])) for vector in vectors}):
        chosen = [vector for vector in vectors if (vector[1], int(vector[2])) == (hash, seed)]
        keys = frame(spark, [(bytes.fromhex(vector[0]), b"") for vector in chosen], 1)
        found = keys.select(position_udf(hash, seed)("key"), slot_udf()("key"), shard_udf(7)("key")).collect()
        for (position, slot, shard), (_, _, _, expected_position, expected_slot) in zip(found, chosen):
            assert (position + 2**63, slot) == (int(expected_position), int(expected_slot))
            assert 16384 * shard // 7 <= slot < 16384 * (shard + 1) // 7
    nothing = spark.createDataFrame([(None,)], "key string").select(position_udf()("key"), slot_udf()("key"))
    assert tuple(nothing.first()) == (None, None)


def test_divided_or_not_the_files_are_those_of_one_build(spark, tmp_path):
    pairs = some(3000)
    df = frame(spark, pairs.items())
    for options in [{"shards": 5}, {"shards": 3, "index": "trie", "compression": "lz4", "seed": 7, "page_bytes": 512}]:
        prepared, plain, whole = (str(tmp_path / name) for name in ("prepared", "plain", "whole"))
        write(df, prepared, "overwrite", **options)
        writer = df.write.format("splitpoint").mode("overwrite").options(**options)
        writer.save("file:" + plain)
        splitpoint.Dictionary.build(pairs, whole, **options).close()
        assert content(prepared) == pairs
        generation = "-1.spd" if "index" not in options else "-2.spd"
        assert all(name == "manifest" or name.endswith(generation) for name in files(prepared))
        shards = [[data for name, data in sorted(files(path).items()) if name != "manifest"] for path in (prepared, plain)]
        assert shards[0] == shards[1]
        assert len(shards[0]) == options["shards"]
        assert {row.key: row.value for row in read(spark, prepared).collect()} == pairs
    with splitpoint.Dictionary(plain) as one, splitpoint.Dictionary(whole) as other:
        assert one.stats().hash_seed == 7 and one.stats().compression == "lz4"
        assert [shard.pairs for shard in one.shards()] == [shard.pairs for shard in other.shards()]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["plain", "prepared", "whole"]


@pytest.mark.parametrize("prepared", [True, False])
def test_append_changes_removes_and_inserts(spark, path, prepared):
    def append(changes, **options):
        df = frame(spark, changes.items())
        if prepared:
            write(df, path, "append", **options)
        else:
            df.write.format("splitpoint").mode("append").options(**options).save(path)

    pairs = some(2000)
    append({**pairs, b"never there": None}, shards=4, index="chunk")
    assert content(path) == pairs
    changes = {**{key: None for key in list(pairs)[::3]}, **some(200, 100, b"other"), **some(100, 9000)}
    append(changes)
    for key, value in changes.items():
        pairs.pop(key, None) if value is None else pairs.update({key: value})
    assert content(path) == pairs
    with splitpoint.Dictionary(path) as dictionary:
        assert dictionary.stats().index == "chunk" and len(dictionary.shards()) == 4
    before = files(path)
    append({b"user:1": b"one shard only"})
    changed = set(files(path)) - set(before)
    assert len(changed) == 1, changed
    assert content(path) == {**pairs, b"user:1": b"one shard only"}


def test_columns_of_other_names_and_values_of_several_columns(spark, path):
    users = spark.createDataFrame([("alice", "admin", 5), ("bob", "guest", None)], "id string, role string, age int")
    write(users, path)
    assert {key: json.loads(value) for key, value in content(path).items()} == {
        b"alice": {"role": "admin", "age": 5},
        b"bob": {"role": "guest"},
    }
    users.write.format("splitpoint").options(key="id", value="role").mode("overwrite").save(path)
    assert content(path) == {b"alice": b"admin", b"bob": b"guest"}
    write(users, path, "overwrite", shards=2, key="role", value="id")
    assert content(path) == {b"admin": b"alice", b"guest": b"bob"}
    assert read(spark, path, "value string, key string").orderBy("key").collect() == [("alice", "admin"), ("bob", "guest")]
    assert read(spark, path, "key string").orderBy("key").collect() == [("admin",), ("guest",)]


def test_modes_that_ask_for_a_new_dictionary(spark, path):
    df = frame(spark, {b"a": b"1"}.items())
    write(df, path, shards=1)
    with pytest.raises(FileExistsError):
        write(df, path)
    write(frame(spark, {b"b": b"2"}.items()), path, "ignore")
    assert content(path) == {b"a": b"1"}
    with pytest.raises(ValueError, match="mode"):
        write(df, path, "upsert")
    with pytest.raises(Exception, match="ErrorIfExists"):
        df.write.format("splitpoint").save(path)
    write(spark.createDataFrame([], "key binary, value binary"), path, "overwrite", shards=2)
    assert content(path) == {}
    assert read(spark, path).count() == 0


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_reads_are_divided_and_filters_on_keys_are_lookups(spark, path, pushdown, request):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.python.filterPushdown.enabled"))
    pairs = some(2000)
    write(frame(spark, pairs.items()), path, shards=4)
    table = read(spark, path)
    in_parts = spark.read.format("splitpoint").option("pairs_per_task", 100).load(path)
    assert in_parts.rdd.getNumPartitions() >= 20
    assert {row.key: row.value for row in in_parts.collect()} == pairs and in_parts.count() == len(pairs)
    key, absent = b"user:77", b"user:-1"
    for wanted in [sql.col("key") == key, sql.col("key").isin(key, absent)]:
        assert table.filter(wanted).collect() == [(key, pairs[key])]
        assert table.filter(wanted & (sql.length("value") > 100)).collect() == []
    assert table.filter(sql.col("key") == absent).collect() == []
    assert table.filter((sql.col("key") == absent) & (sql.col("key") == key)).count() == 0
    assert read(spark, path, "key string, value string").filter("key = 'user:77'").first().value == pairs[key].decode()
    assert table.filter(sql.col("key") > b"user:77").count() == sum(other > key for other in pairs)
    plan = table.filter(sql.col("key") == key)._jdf.queryExecution().executedPlan().toString()
    assert (" = " in plan) == (pushdown == "false"), plan
    reader = splitpoint_spark.DataSource({"path": path}).reader(table.schema)
    assert list(reader.pushFilters([splitpoint_spark.EqualTo(("key",), key)])) == []
    (part,) = reader.partitions()
    assert part.keys == [key]


@pytest.mark.parametrize("prepared", [True, False])
def test_a_task_that_fails_once_leaves_nothing(spark, path, tmp_path, prepared):
    pairs = some(6000)
    df = frame(spark, pairs.items())
    df = prepare(df, 2) if prepared else df
    marker = str(tmp_path / "test-marker")
    df = df.mapInArrow(failing_after_a_batch(marker, False), df.schema)
    df.write.format("splitpoint").option("shards", 2).mode("append").save(path)
    assert os.path.exists(marker), "the task failed once"
    assert content(path) == pairs


@pytest.mark.parametrize("prepared", [True, False])
def test_a_task_that_always_fails_ends_the_job_and_changes_nothing(spark, path, tmp_path, prepared):
    before = some(100)
    splitpoint.Dictionary.build(before, path, shards=2).close()
    old = files(path)
    df = frame(spark, some(6000).items())
    df = prepare(df, 2) if prepared else df
    df = df.mapInArrow(failing_after_a_batch(str(tmp_path / "test-marker"), True), df.schema)
    with pytest.raises(Exception, match="a fault for the test"):
        df.write.format("splitpoint").mode("append").save(path)
    assert files(path) == old


@pytest.mark.parametrize("fault", ["slow before", "slow after", "killed"])
def test_copies_of_tasks_and_killed_ones_leave_nothing(spark, path, tmp_path, fault):
    spark.dataSource.register(Faulty)
    pairs = some(4000)
    marker = str(tmp_path / "test-marker")
    start = time.monotonic()
    df = prepare(frame(spark, pairs.items()), 4)
    df.write.format("faulty").options(fault=fault, marker=marker, shards=4).mode("append").save(path)
    assert os.path.exists(marker)
    assert time.monotonic() - start < SLEEP_SECONDS, "a copy was faster"
    assert content(path) == pairs


def test_a_full_disk_is_an_error_that_names_the_file(spark, path, tmp_path):
    spark.dataSource.register(Faulty)
    df = prepare(frame(spark, some(4000).items()), 2)
    faults = {"fault": "small files", "marker": "", "shards": 2}
    with pytest.raises(Exception, match=r"DiskFullError: .*/\.users\.spd-unfinished-[0-9a-f]+/[01]-\d+-[01]\.spd"):
        df.write.format("faulty").options(**faults).mode("append").save(path)
    assert not os.path.exists(path)


def test_paths_that_cannot_be_written_are_refused_before_the_work(spark, path, tmp_path):
    df = frame(spark, {b"a": b"1"}.items(), 1)
    (tmp_path / "test-file").write_text("")
    (tmp_path / "test-directory").mkdir()
    (tmp_path / "test-directory" / "notes.txt").write_text("")
    splitpoint.Dictionary.build({"a": "1"}, str(tmp_path / "test-one.spd")).close()
    for refused, words in [
        (str(tmp_path / "none" / "users.spd"), "does not exist"),
        (str(tmp_path / "test-file" / "users.spd"), "Not a directory"),
        (str(tmp_path / "test-directory"), "is not a dictionary"),
        (str(tmp_path / "test-one.spd"), "one file"),
        ("hdfs://host/users.spd", "mounted on all machines"),
    ]:
        with pytest.raises(Exception, match=words):
            df.write.format("splitpoint").mode("append").save(refused)
    with pytest.raises(Exception, match="users.spd"):
        read(spark, path).count()


def test_a_directory_in_use_is_refused(spark, path):
    begun, go_on = threading.Event(), threading.Event()

    def pairs():
        yield b"other", b"1"
        begun.set()
        go_on.wait(60)

    builder = threading.Thread(target=lambda: splitpoint.Dictionary.build(pairs(), path, shards=2).close())
    builder.start()
    try:
        assert begun.wait(60)
        with pytest.raises(Exception, match="another process is building it"):
            write(frame(spark, {b"a": b"1"}.items(), 1), path, "overwrite", shards=2)
    finally:
        go_on.set()
        builder.join()
    assert content(path) == {b"other": b"1"}


@pytest.mark.parametrize("prepared", [True, False])
def test_an_update_beside_the_job_is_not_lost(spark, path, prepared):
    splitpoint.Dictionary.build({"a": "1"}, path, shards=2).close()

    def beside(batches):
        # Two tasks at once: one of them makes the update, and the other need not.
        with contextlib.suppress(splitpoint.LockedError):
            splitpoint.Dictionary(path).update({"beside": "1"})
        yield from batches

    df = frame(spark, {b"b": b"2"}.items(), 1)
    df = prepare(df, path=path) if prepared else df
    df = df.mapInArrow(beside, df.schema)
    with pytest.raises(Exception, match="since this job began"):
        df.write.format("splitpoint").mode("append").save(path)
    assert content(path) == {b"a": b"1", b"beside": b"1"}


def test_what_cannot_be_written_is_said_by_row_and_column(spark, path):
    twice = frame(spark, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], 1)
    for df, mode, options, words in [
        (prepare(twice, 1), "append", {"shards": 1}, r'partition 0, row 3: duplicate key "a" \(first at partition 0, row 1'),
        (twice, "append", {"shards": 1}, r'the DataFrame, row 3: duplicate key "a"'),
        (prepare(twice, 2), "append", {"shards": 4}, r"prepare\(df, 4\)"),
        (prepare(twice, 8).coalesce(1), "append", {"shards": 8}, "belongs to shard"),
        (frame(spark, [(b"a", None)]), "overwrite", {}, "the value is null"),
        (twice, "append", {"shard": 1}, "'shard' is no option"),
        (twice, "append", {"shards": "many"}, "shards is 'many', expected a number"),
        (twice, "append", {"shards": 16385}, "at most 16384"),
        (twice, "append", {"index": "btree"}, "index is \"btree\""),
        (twice.withColumn("key", sql.lit(5)), "append", {}, "cast it to string or binary"),
        (spark.range(1).selectExpr("id", "'a' x", "'b' y"), "append", {}, "no column 'key', there are id, x, y"),
    ]:
        with pytest.raises(Exception, match=words):
            df.write.format("splitpoint").mode(mode).options(**options).save(path)
        assert not os.path.exists(path), words
    write(twice, path, shards=1, duplicates="last")
    assert content(path)[b"b"] == b"2"
    with pytest.raises(ValueError, match="no column 'id'"):
        prepare(twice, 4, key="id")


def test_text_that_is_none_is_an_error_of_the_read(spark, path):
    write(frame(spark, {b"a": b"\xff"}.items()), path, shards=1)
    with pytest.raises(Exception, match="(?i)utf"):
        read(spark, path, "key string, value string").collect()
    assert read(spark, path).collect() == [(b"a", b"\xff")]


def test_an_overwrite_replaces_a_dictionary_of_one_file(spark, path, tmp_path):
    for prepared in (True, False):
        splitpoint.Dictionary.build({"old": "1"}, path).close()
        df = frame(spark, some(500).items())
        if prepared:
            write(df, path, "overwrite", shards=2)
        else:
            df.write.format("splitpoint").mode("overwrite").option("shards", 2).save(path)
        assert content(path) == some(500) and os.path.isdir(path)
        splitpoint_spark.shutil.rmtree(path)
    other = tmp_path / "test-letter.txt"
    other.write_text("Dear reader")
    with pytest.raises(Exception, match="test-letter.txt"):
        write(frame(spark, some(5).items()), str(other), "overwrite")
    assert other.read_text() == "Dear reader"


def test_an_old_file_that_cannot_be_renamed_back_is_kept(tmp_path, monkeypatch):
    pairs, path, rename = some(10), str(tmp_path / "users.spd"), os.rename
    splitpoint.Dictionary.build(pairs, path).close()

    def rename_elsewhere(source, target):
        if target == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    writer = splitpoint_spark.DataSource({"path": path}).writer(SCHEMA, True)
    monkeypatch.setattr(os, "rename", rename_elsewhere)
    with pytest.raises(splitpoint.IoError) as failed:
        writer.commit([])
    monkeypatch.undo()
    # Spark calls it after a failed commit.
    writer.abort([])
    [unfinished] = tmp_path.iterdir()
    assert content(unfinished / "old") == pairs
    assert content(unfinished / "new") == {}
    assert str(unfinished / "old") in failed.value.hint and failed.value.errno == errno.EIO


def test_a_dictionary_that_was_made_anew_during_the_job_stays(tmp_path):
    path = tmp_path / "users.spd"
    splitpoint.Dictionary.build(some(10), path, shards=2).close()
    writer = splitpoint_spark.DataSource({"path": str(path)}).writer(SCHEMA, False)
    shutil.rmtree(path)
    # It has the same generation, and as many shards.
    pairs = some(20)
    splitpoint.Dictionary.build(pairs, path, shards=2).close()
    with pytest.raises(splitpoint.StaleError, match="made the dictionary anew"):
        writer.commit([])
    assert content(path) == pairs


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("options", [{}, {"shards": 2}])
def test_a_read_does_not_mix_two_versions(tmp_path, options, filtered):
    path = tmp_path / "users.spd"
    splitpoint.Dictionary.build(some(1000), path, **options).close()
    reader = splitpoint_spark.DataSource({"path": str(path), "pairs_per_task": "100"}).reader(SCHEMA)
    if filtered:
        assert list(reader.pushFilters([splitpoint_spark.EqualTo(("key",), b"user:7")])) == []
    parts = reader.partitions()
    assert (len(parts) == 1) == filtered
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == (1 if filtered else 1000)
    # The new files have the names and the lengths of the old ones.
    shutil.rmtree(path) if options else path.unlink()
    splitpoint.Dictionary.build(some(1000, value=b"other"), path, **options).close()
    for part in parts:
        with pytest.raises(splitpoint.StaleError, match="replaced by an update while it was read"):
            list(reader.read(part))


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_a_directory_behind_a_link_are_written_on_its_file_system(tmp_path, overwrite):
    there = tmp_path / "there"
    there.mkdir()
    splitpoint.Dictionary.build(some(10), there / "users.spd", shards=2).close()
    (tmp_path / "link").symlink_to(there / "users.spd")
    writer = splitpoint_spark.DataSource({"path": str(tmp_path / "link")}).writer(SCHEMA, overwrite)
    assert os.path.dirname(writer._unfinished) == os.path.realpath(there)
    writer.abort([])
    assert os.listdir(there) == ["users.spd"]


def test_columns_that_nobody_named_are_not_left_out(spark, path):
    df = spark.createDataFrame([("a", "1", 5)], "key string, value string, age int")
    with pytest.raises(ValueError, match="age"):
        write(df, path)
    with pytest.raises(Exception, match="3 columns.*age"):
        df.write.format("splitpoint").mode("append").save(path)
    write(df, path, key="key", value="value")
    assert content(path) == {b"a": b"1"}


def test_a_path_is_that_of_the_directory_at_the_call(spark, tmp_path, monkeypatch):
    here, there = tmp_path / "test-here", tmp_path / "test-there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    write(frame(spark, [(b"a", b"1")]), "users.spd", "overwrite", shards=1)
    assert content(here / "users.spd") == {b"a": b"1"}
    monkeypatch.chdir(there)
    write(frame(spark, [(b"b", b"2")]), "users.spd", "ignore", shards=1)
    assert content(there / "users.spd") == {b"b": b"2"}
    assert content(here / "users.spd") == {b"a": b"1"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("hdfs:/users.spd", "HDFS"),
        ("hdfs://name/users.spd", "HDFS"),
        ("dbfs:/users.spd", "/dbfs/"),
        ("DBFS:/users.spd", "Databricks"),
        ("s3a://bucket/users.spd", "S3"),
        ("abfss://x@y/users.spd", "abfss:"),
        ("file://host/users.spd", "'host'"),
    ],
)
def test_other_file_systems_are_refused_as_what_they_are(path, words):
    with pytest.raises(splitpoint.InvalidArgumentError, match=words):
        splitpoint_spark._local(path)


def test_paths_of_files():
    assert splitpoint_spark._local("file:/a/b") == splitpoint_spark._local("file:///a/b") == "/a/b"
    assert splitpoint_spark._local("FILE://localhost/a/b") == "/a/b"
    assert splitpoint_spark._local("a:b") == os.path.abspath("a:b")
