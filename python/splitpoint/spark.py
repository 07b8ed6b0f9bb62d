"""Spark: a data source that writes and reads dictionaries of shards. Needs PySpark 4.1 or later.

.. code-block:: python

    from splitpoint import spark as splitpoint_spark

    splitpoint_spark.write(users, "/shared/users.spd", shards=64)                 # fast: one shuffle, no more
    users.write.format("splitpoint").mode("append").save("/shared/users.spd")     # right, and simpler
    spark.read.format("splitpoint").load("/shared/users.spd")                     # columns key and value, binary

The format is found by its name wherever the package is installed. Workers run the Python that ``PYSPARK_PYTHON`` names:
set it before Spark starts if the environment is not activated, or Spark says DATA_SOURCE_NOT_FOUND. Driver and executors
see the directory under the same path: a network file system, or one machine.

===========================  ==========================================================================================
:func:`write`                writes a DataFrame, with the modes that Spark knows
:func:`prepare`              divides a DataFrame, so that each task of a write makes one shard
:func:`shard_udf`,           which shard or slot has a key, and its place in hash order: Arrow UDFs that agree with the
:func:`slot_udf`,            library bit for bit
:func:`position_udf`
:class:`DataSource`          the data source, to register by hand
===========================  ==========================================================================================

**How a write works.** A DataFrame divided by :func:`prepare` has one shard per partition. Each task sorts its rows
and writes the shard's file, merged with the old one if there is one; tasks that fail, run twice or are killed write
files of their own. The driver then moves the files into the directory and replaces its manifest by a rename: readers see
all of the change or none of it. Until then all files are in a hidden directory next to the dictionary, which is
removed when the job ends, even if it fails.

Spark does not let a data source ask for a partitioning, so a DataFrame that was not divided is written differently:
tasks save their rows unsorted, and the driver sorts and writes all shards. The result has the same bytes, and the
driver does the work.

**Options** of a write: ``shards`` (of a new dictionary; 16), ``key`` and ``value`` (names of the columns), and those of
:class:`splitpoint.BuildOptions`, among them ``index``, ``compression``, ``hash``, ``seed``, ``duplicates`` and
``memory_bytes``, which here is for each task (256 MiB).

**A read** has a task for each shard, and several for one of more than ``pairs_per_task`` pairs (4 million). With the
setting ``spark.sql.python.filterPushdown.enabled``, filters such as ``key = X'61'`` become lookups. A schema with fewer
columns, or with strings for bytes, is passed by ``.schema("key STRING, value STRING")``.

**Modes.** ``overwrite`` replaces a dictionary, of one file too, or makes one. ``append`` changes one: a row puts its
value, and one with a null value removes its key; without a dictionary it creates one. A key that occurs twice in one
DataFrame is an error, as rows of a DataFrame have no order; ``duplicates`` chooses ``"first"`` or ``"last"``, in the
order in which tasks get rows. Spark itself refuses ``error`` and ``ignore`` for every data source in Python; :func:`write` has them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from splitpoint import errors

try:
    import pyarrow
    from pyspark import TaskContext
    from pyspark.sql import datasource
    from pyspark.sql import functions as sql
    from pyspark.sql.datasource import EqualTo, In
    from pyspark.sql.types import BinaryType, StringType, StructType
except ImportError as missing:
    raise errors.missing_library(f"splitpoint.spark needs PySpark 4.1 or later and pyarrow: {missing}") from missing

from splitpoint._splitpoint import ShardJobCore, position_column, shard_generation, slot_column
from splitpoint.dictionary import _OPTIONS, Dictionary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import Filter

#: The default number of shards of a new dictionary: enough for a few servers or parallel readers.
SHARDS = 16
#: Memory for sorting in each task.
MEMORY_BYTES = 256 << 20
#: The approximate number of pairs that a task reads; larger shards are read by several tasks.
PAIRS_PER_TASK = 4_000_000
#: The metadata of the column that :func:`prepare` adds: the number of shards.
_PREPARED = "splitpoint.shards"
_TEXTS = {"index", "effort", "compression", "hash", "duplicates", "temporary_directory"}
_SLOTS = 16384


def position_udf(hash: str = "xxh3", seed: int = 0) -> Any:
    """A function of a column of keys: the position of each in hash order, as a long.

    Positions are unsigned; the sign is flipped, so that the order of the longs is the order of the positions. A null
    key has no position.

    .. code-block:: python

        users.sortWithinPartitions(position_udf()("key"))
    """

    def positions(keys: pyarrow.Array) -> pyarrow.Array:
        return pyarrow.array(position_column(keys, hash, seed))

    return _udf(positions, "long")


def slot_udf() -> Any:
    """A function of a column of keys: the Redis Cluster slot of each, 0 to 16383.

    .. code-block:: python

        users.groupBy(slot_udf()("key")).count()
    """

    def slots(keys: pyarrow.Array) -> pyarrow.Array:
        return pyarrow.array(slot_column(keys, None))

    return _udf(slots, "int")


def shard_udf(shards: int) -> Any:
    """A function of a column of keys: the shard of each in a dictionary of ``shards`` shards.

    .. code-block:: python

        users.repartitionById(64, shard_udf(64)("key"))
    """
    return _shard_udf(_divided(shards))


def _shard_udf(last_slots: list[int]) -> Any:
    def shard_numbers(keys: pyarrow.Array) -> pyarrow.Array:
        return pyarrow.array(slot_column(keys, last_slots))

    return _udf(shard_numbers, "int")


def _udf(function: Any, returns: str) -> Any:
    # Spark reads the hints to learn what kind of function it is.
    function.__annotations__ = {"keys": pyarrow.Array, "return": pyarrow.Array}
    return sql.arrow_udf(function, returns)


def _divided(shards: int) -> list[int]:
    """The last slot of each of ``shards`` shards."""
    if not 1 <= shards <= _SLOTS:
        raise errors.invalid(f"shards is {shards}, expected 1 to {_SLOTS}, the slots of Redis Cluster")
    return [_SLOTS * (shard + 1) // shards - 1 for shard in range(shards)]


def prepare(
    df: DataFrame,
    shards: Optional[int] = None,
    *,
    path: Optional[str] = None,
    key: Optional[str] = None,
    value: Union[str, Sequence[str], None] = None,
) -> DataFrame:
    """Divides ``df`` by shards: a write then makes each shard in a task of its own. Costs one shuffle.

    ``shards`` is that of the dictionary. With ``path``, the shards are those of the dictionary there, if there is one.
    The result has the columns ``key``, ``value`` and ``shard``; its rows must stay in their partitions until they are
    written.

    ``key`` and ``value`` name the columns of ``df``: by default those called so, or else the first one and all others.
    Several columns become one value, a JSON object of them.

    Rows need no order: the writer sorts them in any case, in ``memory_bytes``, beyond which it spills to disk.

    .. code-block:: python

        prepare(users, 64, key="id", value=["name", "mail"]).write.format("splitpoint").mode("overwrite").save(path)
    """
    last_slots = None if path is None else _last_slots(path)
    if last_slots is None:
        last_slots = _divided(SHARDS if shards is None else shards)
    is_named = value is not None
    if key is None:
        key = "key" if "key" in df.columns else df.columns[0]
    if value is None:
        value = "value" if "value" in df.columns else [column for column in df.columns if column != key]
    values = [value] if isinstance(value, str) else list(value)
    for column in [key, *values]:
        if column not in df.columns:
            raise errors.invalid(f"no column {column!r}, there are {', '.join(df.columns)}")
    others = sorted(set(df.columns) - {key, *values})
    if others and not is_named:
        raise errors.invalid(f"the columns {', '.join(others)} would be left out: name those of the value by value=")
    if not values:
        raise errors.invalid(f"a column of values is needed in addition to {key!r}")
    content = sql.col(_quoted(values[0])) if len(values) == 1 else sql.to_json(sql.struct(*map(_quoted, values)))
    pairs = df.select(sql.col(_quoted(key)).alias("key"), content.alias("value"))
    pairs = pairs.withColumn("shard", _shard_udf(last_slots)("key"))
    pairs = pairs.withMetadata("shard", {_PREPARED: len(last_slots)})
    return pairs.repartitionById(len(last_slots), "shard")


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _last_slots(path: str) -> Optional[list[int]]:
    """The last slot of each shard of the dictionary at ``path``; ``None`` if there is none."""
    path = _local(path)
    generation = shard_generation(path)
    return None if generation is None else _job(path, {}, generation, False, "").last_slots


def write(
    df: DataFrame,
    path: str,
    mode: str = "error",
    *,
    shards: Optional[int] = None,
    key: Optional[str] = None,
    value: Union[str, Sequence[str], None] = None,
    **options: Any,
) -> None:
    """Writes ``df`` as a dictionary of shards at ``path``: :func:`prepare`, then the data source.

    ``mode``: ``"error"`` raises ``FileExistsError`` if a dictionary exists, ``"ignore"`` leaves it unchanged,
    ``"overwrite"`` replaces it, ``"append"`` changes it: rows with a null value remove their keys. ``options`` are those
    of :class:`splitpoint.BuildOptions`.

    .. code-block:: python

        write(spark.read.parquet("users.parquet"), "/shared/users.spd", shards=64, key="id", compression="lz4")
        write(changes, "/shared/users.spd", "append")
    """
    # Absolute: the data source runs in other processes, and this one may change its directory.
    path = _local(path)
    if mode not in ("error", "errorifexists", "ignore", "overwrite", "append"):
        raise errors.invalid(f'mode is {mode!r}, expected "error", "ignore", "overwrite" or "append"')
    new = mode in ("error", "errorifexists", "ignore")
    if new and os.path.exists(path):
        if mode == "ignore":
            return
        message, hint = f"{path}: exists", "Choose another name, or the mode overwrite or append."
        raise errors.of_kind(errors.ErrorKind.IO, message, hint, errno.EEXIST)
    kept = path if mode == "append" else None
    writer = prepare(df, shards, path=kept, key=key, value=value).write.format("splitpoint")
    if new:
        options["new"] = True
    for name, option in options.items():
        writer = writer.option(name, option)
    try:
        writer.mode("overwrite" if mode == "overwrite" else "append").save(path)
    except Exception as failed:
        if "DATA_SOURCE_NOT_FOUND" not in str(failed):
            raise
        message = "Spark's workers run a Python that lacks the package splitpoint"
        hint = f"Set PYSPARK_PYTHON={sys.executable}, or activate the environment, before Spark starts."
        raise errors.missing_library(message, hint) from failed


class DataSource(datasource.DataSource):
    """The data source ``splitpoint``, for ``spark.dataSource.register`` where Spark does not find it by itself."""

    @classmethod
    def name(cls) -> str:
        return "splitpoint"

    def schema(self) -> str:
        return "key BINARY, value BINARY"

    def reader(self, schema: StructType) -> _Reader:
        pairs = _number("pairs_per_task", self.options.get("pairs_per_task", PAIRS_PER_TASK))
        return _Reader(self._path(), schema, max(pairs, 1))

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        return _Writer(self._path(), self.options, schema, overwrite)

    def _path(self) -> str:
        path = self.options.get("path")
        if path is None:
            raise errors.invalid("which dictionary? Pass its path to load or save")
        return _local(path)


def _local(path: str) -> str:
    """The path in the file system that all machines share."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", path)
    if scheme is None:
        return os.path.abspath(path)
    name, rest = scheme[1].lower(), path[scheme.end() :]
    if name != "file":
        known = {"hdfs": "HDFS", "dbfs": "the file system of Databricks", "s3": "S3", "s3a": "S3", "gs": "Cloud Storage"}
        hint = "Pass the path of the mount, /dbfs/..." if name == "dbfs" else None
        there = known.get(name, name + ":")
        raise errors.invalid(f"{path}: is in {there}; a dictionary is in a file system mounted on all machines", hint)
    host, slash, below = rest[1:].partition("/") if rest.startswith("/") else ("", "/", rest)
    if host.lower() not in ("", "localhost") or not slash:
        raise errors.invalid(f"{path}: names the machine {host!r}; the path of a file begins with three slashes")
    return os.path.abspath("/" + below)


def _job(path: str, options: dict[str, Any], generation: Optional[int], replace: bool, place: str) -> ShardJobCore:
    return ShardJobCore(path, {name: options.get(name) for name in _OPTIONS}, generation, replace, place)


@dataclasses.dataclass
class _Written(datasource.WriterCommitMessage):
    """The output of a task: files of shards, or its unsorted rows."""

    files: list[tuple[int, os.PathLike[str], int]]
    rows: Optional[str] = None


class _Writer(datasource.DataSourceArrowWriter):
    """A write: created on the driver, which also publishes it; each task has a copy."""

    def __init__(self, path: str, options: Any, schema: StructType, overwrite: bool) -> None:
        #: A dictionary of one file to be overwritten: the new directory is built elsewhere and then takes its name.
        real = os.path.realpath(path)
        self._one_file = real if overwrite and os.path.isfile(path) else None
        if self._one_file is not None:
            Dictionary(path).close()  # nothing else is overwritten
        # Next to the target of a link: files are renamed from there, which only works within a file system.
        parent, name = os.path.split(real)
        self._unfinished = os.path.join(parent, f".{name}-unfinished-{uuid.uuid4().hex[:16]}")
        self._path = path if self._one_file is None else os.path.join(self._unfinished, "new")
        self._replace = overwrite
        self._columns, self._options, new = _chosen(options, schema)
        prepared = [field.metadata[_PREPARED] for field in schema.fields if _PREPARED in field.metadata]
        self._prepared = bool(prepared)
        if self._prepared:
            self._options.setdefault("shards", prepared[0])
        self._generation = None if overwrite or new else shard_generation(path)
        self._base: Optional[int] = None
        job = self._job("", 0)
        self._base = job.base_mark
        self._shards = len(job.last_slots)
        if self._prepared and prepared[0] != self._shards:
            raise errors.invalid(
                f"{path}: has {self._shards} shards, and the DataFrame was prepared for {prepared[0]}. "
                f"Use prepare(df, {self._shards})"
            )
        # Fail now rather than after hours, when the end of the job would fail.
        if self._one_file is None:
            job.check_directory()
        os.mkdir(self._unfinished)

    def _job(self, place: str, threads: int) -> ShardJobCore:
        options = {"threads": threads, "memory_bytes": MEMORY_BYTES, "shards": SHARDS, **self._options}
        job = _job(self._path, options, self._generation, self._replace, place)
        # A dictionary that was removed and made anew may have the same generation.
        if self._base is not None and job.base_mark != self._base:
            message = f"{self._path}: another process has made the dictionary anew since this job began"
            raise errors.of_kind(errors.ErrorKind.STALE, message, "Run the job again.")
        return job

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> _Written:
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return _Written([])
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        # Several attempts may be running at once.
        prefix = os.path.join(self._unfinished, f"{partition}-{context.taskAttemptId()}")
        reader = _pairs(first.schema, itertools.chain([first], iterator), self._columns)
        if not self._prepared:
            return _Written([], _save(reader, prefix + ".rows"))
        directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        if directory:
            self._options.setdefault("temporary_directory", directory)
        job = self._job(f"partition {partition}", 1)
        return _Written(job.write(reader, (partition, partition + 1), prefix, self._columns, self._updates()))

    def _updates(self) -> bool:
        """Whether null values remove their keys."""
        return not self._replace

    def commit(self, messages: list[Optional[datasource.WriterCommitMessage]]) -> None:
        try:
            written = [message for message in messages if isinstance(message, _Written)]
            files = [file for message in written for file in message.files]
            rows = [message.rows for message in written if message.rows is not None]
            job = self._job("the DataFrame", 0)
            if rows:
                prefix = os.path.join(self._unfinished, "all")
                files = job.write(_saved(rows), (0, self._shards), prefix, self._columns, self._updates())
            job.publish(files)
            if self._one_file is not None:
                self._replace_file(self._one_file)
        finally:
            self._remove_unfinished()

    def _replace_file(self, path: str) -> None:
        """Renames the new directory to the name of a file: for a moment nothing has that name."""
        old = self._old()
        os.rename(path, old)
        try:
            os.rename(self._path, path)
        except BaseException as failed:
            try:
                os.rename(old, path)
            except OSError as lost:
                message = f"{path}: cannot be replaced: {failed}; nor can the old file be renamed back: {lost.strerror}"
                hint = f"Rename {old}, the old file, or {self._path}, the new dictionary, to that name."
                raise errors.of_kind(errors.ErrorKind.IO, message, hint, lost.errno) from failed
            raise
        try:
            directory = os.open(os.path.dirname(path), os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        finally:
            # The dictionary has its name: a leftover is no failure.
            with contextlib.suppress(OSError):
                os.remove(old)

    def _old(self) -> str:
        """The path of the file that is being replaced, until the new directory has its name."""
        return os.path.join(self._unfinished, "old")

    def abort(self, messages: list[Optional[datasource.WriterCommitMessage]]) -> None:
        self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        # An error, or the death of an earlier process, may have left the only copy of the old file there.
        if os.path.exists(self._old()):
            return
        # Tasks that are still running create no more files once the directory is renamed.
        removed = self._unfinished + "-removed"
        try:
            os.rename(self._unfinished, removed)
        except FileNotFoundError:
            return
        shutil.rmtree(removed, ignore_errors=True)


def _chosen(given: Any, schema: StructType) -> tuple[tuple[str, str], dict[str, Any], bool]:
    """The columns of keys and values, the options of the build, and whether a dictionary may not exist yet."""
    options = {str(name).lower(): value for name, value in given.items()}
    options.pop("path", None)
    new = str(options.pop("new", "false")).lower() == "true"
    key, value = options.pop("key", None), options.pop("value", None)
    for name in options:
        if name not in _OPTIONS:
            raise errors.invalid(f"{name!r} is no option; there are key, value, {', '.join(_OPTIONS)}")
    build = {name: text if name in _TEXTS else _number(name, text) for name, text in options.items()}
    names = [field.name for field in schema.fields if _PREPARED not in field.metadata]
    others = len(names) - 2
    named = key is not None and value is not None
    key = key or ("key" if "key" in names or others else names[0])
    value = value or ("value" if "value" in names or others else names[1])
    for name in (key, value):
        if name not in names:
            raise errors.invalid(
                f"no column {name!r}, there are {', '.join(names)}. Name the columns by the options key and value, or "
                "make pairs with splitpoint.spark.prepare, which puts several columns into one value"
            )
        if not isinstance(schema[name].dataType, (BinaryType, StringType)):
            kind = schema[name].dataType.simpleString()
            raise errors.invalid(
                f"the column {name!r} is of type {kind}: keys and values are bytes; cast it to string or binary"
            )
    if others > 0 and not named:
        raise errors.invalid(
            f"{len(names)} columns, {', '.join(names)}: name the two to take by the options key and value, or make pairs "
            "with splitpoint.spark.prepare, which puts several columns into one value"
        )
    return (key, value), build, new


def _number(name: str, text: Any) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.invalid(f"the option {name} is {text!r}, expected a number") from None


def _pairs(
    schema: pyarrow.Schema, batches: Iterator[pyarrow.RecordBatch], columns: tuple[str, str]
) -> pyarrow.RecordBatchReader:
    chosen = pyarrow.schema([schema.field(name) for name in columns])
    return pyarrow.RecordBatchReader.from_batches(chosen, (batch.select(columns) for batch in batches))


def _save(reader: pyarrow.RecordBatchReader, path: str) -> str:
    """Saves the rows of a task for the driver."""
    try:
        with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, reader.schema) as stream:
            for batch in reader:
                stream.write_batch(batch)
    except BaseException:
        if os.path.exists(path):
            os.remove(path)
        raise
    return path


def _saved(paths: list[str]) -> pyarrow.RecordBatchReader:
    """The rows that tasks have saved."""

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for path in paths:
            with pyarrow.memory_map(path) as file, pyarrow.ipc.open_stream(file) as stream:
                yield from stream

    with pyarrow.memory_map(paths[0]) as file, pyarrow.ipc.open_stream(file) as first:
        schema = first.schema
    return pyarrow.RecordBatchReader.from_batches(schema, batches())


@dataclasses.dataclass
class _Shard(datasource.InputPartition):
    """The input of a task from a file: one of several equal parts, or the pairs of some keys."""

    path: str
    keys: Optional[list[bytes]] = None
    part: int = 0
    parts: int = 1
    #: The mark of the file when the read was planned.
    mark: int = 0


class _Part:
    """A part of a file, as Arrow takes it."""

    def __init__(self, dictionary: Dictionary, shard: _Shard) -> None:
        self._dictionary, self._shard = dictionary, shard

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._dictionary._part(self._shard.part, self._shard.parts)


def _replaced(path: str) -> errors.Error:
    message = f"{path}: was replaced by an update while it was read. Read it again"
    return errors.of_kind(errors.ErrorKind.STALE, message)


class _PushFilters:
    """A reader's ``pushFilters``, which Spark calls if filter pushdown is enabled.

    If it is disabled, which is Spark's default, Spark refuses to use a reader that overrides ``pushFilters``. It
    compares ``__func__``, so this pretends that nothing is overridden: reading then works, without lookups.
    """

    __func__ = staticmethod(datasource.DataSourceReader.pushFilters)

    def __init__(self, take: Callable[[list[Filter]], Iterator[Filter]]) -> None:
        self._take = take

    def __call__(self, filters: list[Filter]) -> Iterator[Filter]:
        return self._take(filters)


class _Reader(datasource.DataSourceReader):
    def __init__(self, path: str, schema: StructType, pairs: int) -> None:
        self.pushFilters = _PushFilters(self._take_filters)  # type: ignore[method-assign, unused-ignore]
        self._path, self._pairs = path, pairs
        self._keys: Optional[set[bytes]] = None
        self._fields = [(field.name, field.dataType) for field in schema.fields]
        for name, kind in self._fields:
            if name not in ("key", "value") or not isinstance(kind, (BinaryType, StringType)):
                raise errors.invalid(
                    f"no column {name} of type {kind.simpleString()}: there are key and value, as binary or string"
                )

    def _take_filters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Takes filters that name keys: only these are looked up."""
        for filter in filters:
            wanted = None
            if isinstance(filter, EqualTo) and filter.attribute == ("key",):
                wanted = [filter.value]
            elif isinstance(filter, In) and filter.attribute == ("key",):
                wanted = list(filter.value)
            if wanted is None or not all(isinstance(key, (bytes, bytearray, str)) for key in wanted):
                yield filter
                continue
            keys = {key.encode() if isinstance(key, str) else bytes(key) for key in wanted}
            self._keys = keys if self._keys is None else self._keys & keys

    def partitions(self) -> Sequence[_Shard]:
        with Dictionary(self._path) as dictionary:
            marked = zip(dictionary.shards(), dictionary._marks())
            shards = [(shard, mark) for shard, mark in marked if shard.pairs]
        nothing = [_Shard("", [])]  # Spark wants one
        if self._keys is None:
            files = [(os.fspath(shard.path), -(-shard.pairs // self._pairs), mark) for shard, mark in shards]
            parts = [_Shard(path, None, part, count, mark) for path, count, mark in files for part in range(count)]
            return parts or nothing
        from splitpoint import slot

        def wanted(first: int, last: int) -> list[bytes]:
            return sorted(key for key in self._keys or () if first <= slot(key) <= last)

        parts = [
            _Shard(os.fspath(shard.path), wanted(shard.first_slot, shard.last_slot), mark=mark)
            for shard, mark in shards
        ]
        return [part for part in parts if part.keys] or nothing

    def read(self, partition: datasource.InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, _Shard)
        if not partition.path:
            return
        try:
            dictionary = Dictionary(partition.path)
        except FileNotFoundError as gone:
            raise _replaced(partition.path) from gone
        with dictionary:
            if dictionary._marks() != [partition.mark]:
                raise _replaced(partition.path)
            if partition.keys is None:
                whole = partition.parts == 1
                source = dictionary if whole else _Part(dictionary, partition)
                for batch in pyarrow.RecordBatchReader.from_stream(source):
                    yield self._columns(batch.column(0), batch.column(1))
                return
            found = {key: dictionary[key] for key in partition.keys if key in dictionary}
        keys, values = (pyarrow.array(list(column), pyarrow.binary()) for column in (found, found.values()))
        yield self._columns(keys, values)

    def _columns(self, keys: pyarrow.Array, values: pyarrow.Array) -> pyarrow.RecordBatch:
        columns = {"key": keys, "value": values}
        kinds = [pyarrow.string() if isinstance(kind, StringType) else pyarrow.binary() for _, kind in self._fields]
        arrays = [columns[name].cast(kind) for (name, _), kind in zip(self._fields, kinds)]
        return pyarrow.record_batch(arrays, names=[name for name, _ in self._fields])
