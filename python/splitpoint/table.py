"""Tables: mutable mappings of bytes to bytes, in memory or in one file."""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Optional, TypedDict, TypeVar, Union, overload

from splitpoint import _inputs, errors
from splitpoint._splitpoint import Batch, TableCore, TableScan, restore_table
from splitpoint.figures import SalvageReport, TableCounters, TableStats
from splitpoint.typed import How, TypedTable, codecs

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from splitpoint.dictionary import BuildOptions

Bytes = Union[bytes, str, bytearray, memoryview]
Default = TypeVar("Default")


class TableOptions(TypedDict, total=False):
    """Options of :func:`open` and :func:`memory`. Those marked * apply when the table is created."""

    #: Bytes of a bucket's page: a power of two from 512 to 65,536. *
    page_bytes: int
    #: Average pairs per bucket above which the table grows; by default ``fill_percent`` decides. *
    fill_factor: int
    #: Bytes of pairs, in percent of the pages, above which the table grows: 92. *
    fill_percent: int
    #: The expected number of pairs, for which buckets are allocated in advance. *
    expected_len: int
    #: Memory for pages: by default half of the machine's, or a quarter of a container's. A table in memory moves the
    #: rest to a temporary file.
    cache_bytes: int
    #: The hash function: "xxh3"; "siphash13" for keys an attacker may choose. *
    hash: str
    #: Its seed, by default random. *
    seed: int
    #: Which failures a write survives: "none", "os" (the end of the process), "sync" (a power loss).
    durability: str
    #: Bytes of the write-ahead log: by default the length of the file, at least 256 MiB.
    log_bytes: int
    #: Whether to write counters to a file next to the table, for other processes to watch.
    publish_counters: bool
    #: With flag "r": whether to read the last checkpoint alone, without the writes since.
    checkpoint_only: bool


_OPTIONS = tuple(TableOptions.__annotations__)
#: No default.
_ABSENT: Any = object()


def _options(given: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    for name in given:
        if name not in known:
            raise errors.wrong_type(f"{name!r} is no option; there are {', '.join(known)}")
    directory = given.get("temporary_directory")
    if isinstance(directory, (str, bytes, os.PathLike)):
        given = {**given, "temporary_directory": _inputs.path_of(directory)}
    return {name: given.get(name) for name in known}


class _Values(ValuesView[bytes]):
    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._values()  # type: ignore[attr-defined,no-any-return]


class _Items(ItemsView[bytes, bytes]):
    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._mapping.scan()  # type: ignore[attr-defined,no-any-return]


class Table(TableCore, MutableMapping):  # type: ignore[type-arg]
    """A table: a ``MutableMapping[bytes, bytes]``, made by :func:`splitpoint.open` and :func:`splitpoint.memory`.

    Keys and values are ``bytes``; ``str`` is encoded as UTF-8. Any number of threads may use it at once. Iteration is
    in *hash order*; the table may change meanwhile, and a key that stays is returned exactly once. A table in a file
    belongs to the process that opened it; a forked child must open it again (:class:`~splitpoint.ForkedError`).

    >>> import splitpoint
    >>> table = splitpoint.memory()
    >>> table[b"alice"] = b"admin"
    >>> table["bob"] = "guest"
    >>> table[b"bob"], len(table), b"carol" in table
    (b'guest', 2, False)
    >>> sorted(table.items())
    [(b'alice', b'admin'), (b'bob', b'guest')]
    """

    __slots__ = ()

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # __init__ opens it, so that a subclass chooses its own arguments.
        return super().__new__(cls)

    def __init__(
        self,
        path: Optional[_inputs.Path] = None,
        flag: str = "c",
        mode: int = 0o666,
        **options: Unpack[TableOptions],
    ) -> None:
        where = None if path is None else _inputs.path_of(path)
        if not isinstance(flag, str):
            raise errors.wrong_type(f"flag is {flag!r}, expected a str: 'r', 'w', 'c' or 'n'")
        if not isinstance(mode, int):
            raise errors.wrong_type(f"mode is {mode!r}, expected the permissions of a file as an int")
        if not 0 <= mode <= 0o7777:
            raise errors.invalid(f"mode is {mode:#o}, expected the permissions of a file, 0 to 0o7777")
        self._open(where, flag, mode, _options(options, _OPTIONS))

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        _inputs.use_overridden(cls, MutableMapping)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else repr(self.path)
        if self.closed:
            return f"<splitpoint.Table {where}, closed>"
        return f"<splitpoint.Table {where}, {len(self):,} pairs>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __bool__(self) -> bool:
        return len(self) > 0

    __hash__ = None  # type: ignore[assignment]  # as of every mutable mapping

    def get_many(self, keys: Any, default: Any = None) -> Any:
        """The values of ``keys``, in their order, several times as fast as one by one.

        An iterable of keys gives a list, with ``default`` for absent ones. (``series.map(table)`` of pandas does not
        encode the keys, and finds none that is a text.) An array of Arrow, NumPy, pandas or Polars
        gives :class:`~splitpoint.Values`, without an object for each row. NumPy arrays of type ``S`` are byte strings;
        in NumPy arrays of numbers the keys are the numbers' bytes, little-endian, and in other arrays the integers'
        decimal text.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table.update({b"alice": b"90", b"bob": b"80"})
        >>> table.get_many([b"bob", b"carol"])
        [b'80', None]
        """
        return _inputs.get_many(self, keys, default)

    def update_many(
        self,
        source: Any,
        *,
        key: Optional[str] = None,
        value: Optional[str] = None,
        progress: Union[_inputs.Progress, bool, None] = None,
    ) -> int:
        """Stores all pairs of ``source``, and returns their number.

        ``source`` is a mapping, an iterable of pairs, a pandas, Polars or Arrow table, a stream of record batches, or
        the path of a Parquet file. ``key`` and ``value`` name the columns, by default the first two. Not atomic: after
        an error only the first pairs are stored. ``progress``: see :meth:`Dictionary.build
        <splitpoint.Dictionary.build>`.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table.update_many((str(i), str(i * i)) for i in range(1000))
        1000
        >>> table[b"31"]
        b'961'
        """
        with _inputs.reporting(progress) as report:
            return self._put_pairs(_inputs.pairs_of(source, key, value), key, value, report)

    def append_many(self, pairs: Any, /) -> list[int]:
        """Appends the tail of each pair of ``pairs``, which is what :meth:`update_many` takes. Returns the new lengths.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table.append_many([(b"a", b"1"), (b"b", b"2"), (b"a", b"34")])
        [1, 1, 3]
        """
        return self._append_pairs(_inputs.pairs_of(pairs, None, None))

    def update(self, other: Any = (), /, **pairs: Bytes) -> None:
        """Stores the pairs of a mapping or an iterable, then those of keyword arguments, as ``dict.update`` does.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table.update({b"alice": b"90"}, bob="80")
        >>> len(table)
        2
        """
        if not isinstance(other, Mapping) and hasattr(other, "keys"):
            keyed = other
            other = ((key, keyed[key]) for key in keyed.keys())
        self.update_many(other)
        if pairs:
            self.update_many(pairs)

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def setdefault(self, key: Bytes, default: Bytes = b"") -> bytes:  # type: ignore[override]
        """The value of ``key``; stores ``default`` first if the key is absent. Atomic.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table.setdefault(b"visits", b"0"), table.setdefault(b"visits", b"7")
        (b'0', b'0')
        """
        while True:
            value = self.get(key)
            if value is not None:
                return value
            self.insert_new(key, default)

    @overload
    def pop(self, key: Bytes, /) -> bytes: ...
    @overload
    def pop(self, key: Bytes, /, default: Default) -> Union[bytes, Default]: ...
    def pop(self, key: Bytes, /, default: Any = _ABSENT) -> Any:
        """Removes ``key`` and returns its value; if it is absent, ``default``, or without one ``KeyError``. Atomic.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> table.pop(b"alice"), table.pop(b"alice", None)
        (b'90', None)
        """
        value = self._take(key)
        if value is not None:
            return value
        if default is _ABSENT:
            raise errors.AbsentKeyError(key)
        return default

    def popitem(self) -> tuple[bytes, bytes]:
        """Removes the first pair of hash order and returns it; ``KeyError`` if there is none.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> table.popitem()
        (b'alice', b'90')
        """
        while True:
            key = self.firstkey()
            if key is None:
                raise errors.AbsentKeyError("popitem(): the table is empty")
            value = self._take(key)
            if value is not None:
                return key, value

    def values(self) -> ValuesView[bytes]:
        """The values, in hash order.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> list(table.values())
        [b'90']
        """
        return _Values(self)

    def items(self) -> ItemsView[bytes, bytes]:
        """The pairs, in hash order. One pass: no lookup for each key.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> list(table.items())
        [(b'alice', b'90')]
        """
        return _Items(self)

    def typed(self, key: Optional[How] = None, value: Optional[How] = None) -> TypedTable:
        """A mapping of Python's types in this table. The file records them, and refuses others
        (:class:`~splitpoint.WrongTypesError`).

        ``key`` and ``value`` are ``int`` (of 64 bits), ``str``, ``bytes``, ``"json"``, ``"pickle"`` (only a value) or a
        :class:`~splitpoint.Codec`; by default ``bytes``.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> users = table.typed(key=int, value="json")
        >>> users[7] = {"name": "alice"}
        >>> users[7]["name"], table[(7).to_bytes(8, "little")]
        ('alice', b'{"name":"alice"}')
        """
        return TypedTable(self, key, value)

    def stats(self) -> TableStats:
        """Walks all buckets and measures the table: bytes, overflow, the histogram of bucket sizes.

        >>> import splitpoint
        >>> splitpoint.memory(page_bytes=512).stats().page_bytes
        512
        """
        return TableStats(**self._survey())

    def counters(self) -> TableCounters:
        """Activity since the table was opened, and its size. Fast; never waits.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> table.counters().puts
        1
        """
        return TableCounters(**self._counters())

    def compact(self, progress: Union[_inputs.Progress, bool, None] = None) -> None:
        """Shrinks the table and its file to the size that the pairs need. Other threads may use the table meanwhile.

        Ctrl-C ends it between two buckets; what was compacted so far stays compacted.

        >>> import splitpoint
        >>> table = splitpoint.memory()
        >>> table.compact()
        """
        with _inputs.reporting(progress) as report:
            self._compact(report)

    def reorganize(self) -> None:
        """:meth:`compact` under its name in ``dbm.gnu``.

        >>> import splitpoint
        >>> splitpoint.memory().reorganize()
        """
        self.compact()

    def backup(
        self,
        path: _inputs.Path,
        *,
        overwrite: bool = False,
        progress: Union[_inputs.Progress, bool, None] = None,
    ) -> None:
        """Copies the table, as of one moment, to a new file at ``path`` while other threads use it. Durable.

        ``progress(phase, done, total)`` counts bytes. Ctrl-C removes the copy.

        >>> import splitpoint, tempfile, os
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     table.backup(os.path.join(directory, "copy.spt"))
        ...     with splitpoint.open(os.path.join(directory, "copy.spt"), "r") as copy:
        ...         copy[b"alice"]
        b'90'
        """
        with _inputs.reporting(progress) as report:
            self._backup(_inputs.path_of(path), overwrite, report)

    def freeze(
        self,
        path: _inputs.Path,
        *,
        progress: Union[_inputs.Progress, bool, None] = None,
        **options: Unpack[BuildOptions],
    ) -> int:
        """Writes all pairs to a dictionary at ``path``, which needs no sort, and returns their number.

        Its hash function is the table's. ``options`` are those of :meth:`Dictionary.build
        <splitpoint.Dictionary.build>`.

        >>> import splitpoint, tempfile, os
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = b"90"
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     table.freeze(os.path.join(directory, "users.spd"))
        1
        """
        from splitpoint.dictionary import _OPTIONS as known

        with _inputs.reporting(progress) as report:
            return self._freeze(_inputs.path_of(path), _options(options, known), report)


@overload
def open(
    path: _inputs.Path,
    flag: str = "c",
    mode: int = 0o666,
    *,
    key: How,
    value: Optional[How] = None,
    **options: Unpack[TableOptions],
) -> TypedTable: ...
@overload
def open(
    path: _inputs.Path,
    flag: str = "c",
    mode: int = 0o666,
    *,
    key: None = None,
    value: How,
    **options: Unpack[TableOptions],
) -> TypedTable: ...
@overload
def open(
    path: _inputs.Path,
    flag: str = "c",
    mode: int = 0o666,
    *,
    key: None = None,
    value: None = None,
    **options: Unpack[TableOptions],
) -> Table: ...
def open(
    path: _inputs.Path,
    flag: str = "c",
    mode: int = 0o666,
    *,
    key: Optional[How] = None,
    value: Optional[How] = None,
    **options: Unpack[TableOptions],
) -> Union[Table, TypedTable]:
    """Opens the table in the file at ``path``, as ``dbm.open`` does; recovers it after a crash.

    ``flag``: ``"r"`` reads an existing table, ``"w"`` reads and writes it, ``"c"`` creates it if it is absent, ``"n"``
    replaces an existing file by an empty table. ``mode`` has the permissions of a new file, less the umask. ``options``
    are those of :class:`TableOptions`.

    With ``key`` or ``value`` it is a :class:`~splitpoint.TypedTable`, as :meth:`Table.typed` makes it.

    One process writes; a second open for writing raises :class:`~splitpoint.LockedError`. Any number of processes read.

    >>> import splitpoint, tempfile, os
    >>> directory = tempfile.TemporaryDirectory()
    >>> path = os.path.join(directory.name, "users.spt")
    >>> with splitpoint.open(path) as table:
    ...     table[b"alice"] = b"admin"
    >>> with splitpoint.open(path, "r") as table:
    ...     table[b"alice"]
    b'admin'
    >>> directory.cleanup()
    """
    codecs(key, value)  # before the file is created or emptied
    table = Table(path, flag, mode, **options)
    if key is None and value is None:
        return table
    try:
        return table.typed(key, value)
    except BaseException:
        table.close()
        raise


def salvage(
    path: _inputs.Path,
    table: Table,
    *,
    only_verified: bool = False,
    progress: Union[_inputs.Progress, bool, None] = None,
) -> SalvageReport:
    """Stores in ``table`` every pair that can still be read from the damaged table at ``path``, which is not changed.

    Returns a :class:`SalvageReport` of the losses. ``only_verified`` leaves out pairs that no checksum proves.

    >>> import splitpoint, tempfile, os
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "users.spt")
    ...     with splitpoint.open(path) as users:
    ...         users[b"alice"] = b"90"
    ...     found = splitpoint.memory()
    ...     report = splitpoint.salvage(path, found)
    >>> report.missing, dict(found)
    (0, {b'alice': b'90'})
    """
    with _inputs.reporting(progress) as report:
        return SalvageReport(**table._salvage(_inputs.path_of(path), only_verified, report))


def restore(
    backup: _inputs.Path,
    path: _inputs.Path,
    *,
    overwrite: bool = False,
    progress: Union[_inputs.Progress, bool, None] = None,
) -> None:
    """Replaces the table at ``path`` with a backup made by :meth:`Table.backup`, after checking all of it.

    Every process must have closed that table. ``overwrite`` allows replacing an existing table.

    >>> import splitpoint, tempfile, os
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path, copy = os.path.join(directory, "users.spt"), os.path.join(directory, "users.bak")
    ...     with splitpoint.open(path) as users:
    ...         users[b"alice"] = b"90"
    ...         users.backup(copy)
    ...         users.clear()
    ...     splitpoint.restore(copy, path, overwrite=True)
    ...     with splitpoint.open(path, "r") as users:
    ...         users[b"alice"]
    b'90'
    """
    with _inputs.reporting(progress) as report:
        restore_table(_inputs.path_of(backup), _inputs.path_of(path), overwrite, report)


def memory(**options: Unpack[TableOptions]) -> Table:
    """A new table in memory. With ``cache_bytes`` it moves pages beyond that to a temporary file without a name.

    >>> import splitpoint
    >>> with splitpoint.memory(expected_len=1000) as table:
    ...     table.append(b"log", b"first line")
    10
    """
    return Table(**options)


__all__ = ["Batch", "Table", "TableOptions", "TableScan", "memory", "open", "restore", "salvage"]
