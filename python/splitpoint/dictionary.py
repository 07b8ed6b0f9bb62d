"""Dictionaries: mappings far larger than memory, built once and changed in batches."""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypedDict, Union

from splitpoint import _inputs, errors
from splitpoint._splitpoint import DictionaryCore, build_dictionary
from splitpoint.figures import DictionaryStats, ShardInfo
from splitpoint.table import Table, _options

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from splitpoint.table import TableOptions


class BuildOptions(TypedDict, total=False):
    """Options of :meth:`Dictionary.build`."""

    #: "page" (the default), "trie", "trie-sparse", "chunk" or "none".
    index: str
    #: For tries: keys per virtual bucket, largest Huffman-coded trie, smallest trie with a skip, keys per block.
    bucket_keys: int
    huffman_max: int
    skip_min: int
    block_items: int
    #: For "page": more bins cost memory and save reads.
    bins_per_page: int
    #: For "chunk": "fast", "balanced" or "small".
    effort: str
    #: Bits of a filter, 8 or 16, so that lookups of absent keys read nothing; 0, the default, for none.
    filter: int
    #: Bytes of a page, which most lookups read: 4096.
    page_bytes: int
    #: "none" or "lz4", in blocks of ``block_bytes``.
    compression: str
    block_bytes: int
    #: The hash function and its seed: "xxh3" and 0.
    hash: str
    seed: int
    #: Memory for sorting: 1 GiB, or a quarter of a container's.
    memory_bytes: int
    #: Threads that sort: one per processor.
    threads: int
    #: What to do with a key that occurs twice: "error", or keep the "first" or the "last" value. Of :meth:`Dictionary.build`
    #: also "sum" of integers in decimal, or a function of the earlier and the next value.
    duplicates: Union[str, Callable[[bytes, bytes], Union[bytes, str]]]
    #: The directory for the files of the sort: that of the dictionary.
    temporary_directory: str
    #: Makes a directory of this many files, divided by the slots of Redis Cluster.
    shards: int


_OPTIONS = tuple(BuildOptions.__annotations__)


class Change(NamedTuple):
    """A difference between two dictionaries, made by :meth:`Dictionary.diff`: a key's old and new value."""

    key: bytes
    #: The value in the older dictionary; ``None`` if the key was added.
    old_value: Optional[bytes]
    #: The value in the newer dictionary; ``None`` if the key was removed.
    value: Optional[bytes]

    @property
    def kind(self) -> str:
        """"added", "removed" or "replaced"."""
        if self.old_value is None:
            return "added"
        return "removed" if self.value is None else "replaced"


def _opened_again(cls: type[Dictionary], path: str, map_data: Optional[bool], map_index: bool) -> Dictionary:
    """Opens a pickled dictionary. A subclass is opened without ``__init__``; its attributes come from the pickle."""
    opened = cls.__new__(cls)
    opened._open(path, map_data, map_index)
    return opened


#: The positions in hash order are below this.
_POSITIONS = 1 << 64


def _positions(start: int, stop: Optional[int]) -> tuple[int, int]:
    """The first and the last position of a half-open range."""
    end = _POSITIONS if stop is None else min(stop, _POSITIONS)
    if start < 0 or end < 0:
        raise errors.invalid(f"positions {start} to {stop}: expected numbers from 0 to 2**64")
    return (start, end - 1) if start < end else (1, 0)


class _Values(ValuesView[bytes]):
    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._values()  # type: ignore[attr-defined,no-any-return]


class _Items(ItemsView[bytes, bytes]):
    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._mapping._pairs()  # type: ignore[attr-defined,no-any-return]


class Dictionary(DictionaryCore, Mapping):  # type: ignore[type-arg]
    """A dictionary: a ``Mapping[bytes, bytes]`` in a file, or in a directory of shards, that is never changed in place.

    A lookup costs about one read of the disk, also of an absent key; its index takes about two bits of memory a key, or
    less. Any number of threads and processes read it. An update writes a new file and renames it; open dictionaries
    keep what they had until :meth:`reload`. ``map_data`` says whether it reads from a mapping of the file, which is
    several times as fast for data in the system's cache; by default it does where the file is on a disk of this machine
    and no larger than half of its memory. Without a mapping the checksum of a page is compared each time.

    >>> import splitpoint, tempfile, os
    >>> directory = tempfile.TemporaryDirectory()
    >>> path = os.path.join(directory.name, "users.spd")
    >>> users = splitpoint.Dictionary.build({b"alice": b"admin", b"bob": b"guest"}, path)
    >>> users[b"alice"], b"carol" in users, len(users)
    (b'admin', False, 2)
    >>> users.update([(b"carol", b"guest"), (b"bob", None)])
    2
    >>> sorted(users)
    [b'alice', b'carol']
    >>> users.close()
    >>> directory.cleanup()
    """

    __slots__ = ()

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # __init__ opens it, so that a subclass chooses its own arguments.
        return super().__new__(cls)

    def __init__(self, path: _inputs.Path, *, map_data: Optional[bool] = None, map_index: bool = False) -> None:
        self._open(_inputs.path_of(path), map_data, map_index)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        _inputs.use_overridden(cls, Mapping)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Another process opens the path, and gets the version that is there then.
        state = getattr(self, "__dict__", None) or None
        return _opened_again, (type(self), *self._arguments()), state

    def __repr__(self) -> str:
        if self.closed:
            return f"<splitpoint.Dictionary {self.path!r}, closed>"
        return f"<splitpoint.Dictionary {self.path!r}, {len(self):,} pairs>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __hash__ = None  # type: ignore[assignment]  # as of mappings with equality

    @classmethod
    def build(
        cls,
        source: Any,
        path: _inputs.Path,
        *,
        key: Optional[str] = None,
        value: Optional[str] = None,
        progress: Union[_inputs.Progress, bool, None] = None,
        **options: Unpack[BuildOptions],
    ) -> Self:
        """Builds a dictionary at ``path`` from the pairs of ``source``, in any order, and opens it.

        ``source`` is a mapping, an iterable of pairs, a pandas, Polars or Arrow table, a stream of record batches
        (anything with ``__arrow_c_stream__``), or the path of a Parquet file. ``key`` and ``value`` name the columns,
        by default the first two; integers of a column are stored as decimal text. It may be far larger than memory; ``options`` are those of :class:`BuildOptions`.

        ``progress`` is called as ``progress(phase, done, total)``, first with the phase ``"read"`` and a total of
        ``None``, then with ``"write"``; ``True`` shows bars of tqdm if it is installed. What it raises, and Ctrl-C, end
        the build. An earlier dictionary at ``path`` stays until the new one is complete.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     pairs = ((str(i), str(i * i)) for i in range(10_000))
        ...     squares = splitpoint.Dictionary.build(pairs, os.path.join(directory, "squares.spd"), index="chunk")
        ...     squares["111"], squares.stats().index
        (b'12321', 'chunk')
        """
        path = _inputs.path_of(path)
        with _inputs.reporting(progress) as report:
            chosen = _options(options, _OPTIONS)
            merge = chosen["duplicates"]
            if callable(merge) or merge == "sum":
                chosen["duplicates"] = None
            else:
                merge = None
            build_dictionary(_inputs.pairs_of(source, key, value), path, (key, value), chosen, merge, report)
        return cls(path)

    def update(
        self,
        changes: Any,
        path: Optional[_inputs.Path] = None,
        *,
        key: Optional[str] = None,
        value: Optional[str] = None,
        progress: Union[_inputs.Progress, bool, None] = None,
        **options: Unpack[BuildOptions],
    ) -> int:
        """Merges ``changes`` with the pairs in one pass over the file; returns the new number of pairs.

        ``changes`` is what :meth:`build` takes; a value of ``None`` or null removes its key. Of several changes of one
        key the last counts. The result replaces this dictionary, which is then reloaded, or goes to ``path`` and leaves
        this one unchanged. Pages, compression and hash function stay; the index is made as ``options`` say, or as
        before.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     users = splitpoint.Dictionary.build({"alice": "1", "bob": "2"}, os.path.join(directory, "users.spd"))
        ...     users.update({"alice": None, "carol": "3"}), dict(users) == {b"bob": b"2", b"carol": b"3"}
        (2, True)
        """
        new = _inputs.path_of(self.path if path is None else path)
        chosen = _options(options, _OPTIONS)
        with _inputs.reporting(progress) as report:
            pairs = self._update(_inputs.pairs_of(changes, key, value), new, key, value, chosen, report)
        if path is None:
            self.reload()
        return pairs

    def get_many(self, keys: Any, default: Any = None) -> Any:
        """The values of ``keys``, in their order; the reads overlap.

        An iterable of keys gives a list, with ``default`` for absent ones; an array gives
        :class:`~splitpoint.Values`. See :meth:`Table.get_many <splitpoint.Table.get_many>`.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     users = splitpoint.Dictionary.build({"alice": "1", "bob": "2"}, os.path.join(directory, "users.spd"))
        ...     users.get_many(["bob", "carol"], b"-")
        [b'2', b'-']
        """
        return _inputs.get_many(self, keys, default)

    def values(self) -> ValuesView[bytes]:
        """The values, in hash order.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     list(splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory, "users.spd")).values())
        [b'1']
        """
        return _Values(self)

    def items(self) -> ItemsView[bytes, bytes]:
        """The pairs, in hash order, as they were when the iteration began.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     list(splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory, "users.spd")).items())
        [(b'alice', b'1')]
        """
        return _Items(self)

    def range(self, start: int = 0, stop: Optional[int] = None) -> Iterator[tuple[bytes, bytes]]:
        """The pairs whose :meth:`position` is from ``start`` up to ``stop``, which is not included, in hash order.

        Positions are evenly distributed below 2**64, so a sixteenth of them has about a sixteenth of the pairs. Use
        this to divide work, or to compare and copy a dictionary part by part.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     pairs = ((str(i), str(i * i)) for i in range(1000))
        ...     squares = splitpoint.Dictionary.build(pairs, os.path.join(directory, "squares.spd"))
        ...     sum(1 for _ in squares.range(stop=2**63)) + sum(1 for _ in squares.range(2**63))
        1000
        """
        return self._range(*_positions(start, stop))

    def diff(
        self,
        newer: Dictionary,
        start: int = 0,
        stop: Optional[int] = None,
        *,
        progress: Union[_inputs.Progress, None] = None,
    ) -> Iterator[Change]:
        """The changes from this dictionary to ``newer`` in hash order, shard by shard, each a :class:`Change`.

        Reads both once, in parallel; a shard whose file both share is not read. ``start`` and ``stop`` limit the
        positions as in :meth:`range`, to update a copy part by part. ``progress`` is called as
        ``progress("compare", done, total)`` with the pairs read in both. :meth:`apply` takes the changes.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     old = splitpoint.Dictionary.build({"a": "1", "b": "2"}, os.path.join(directory, "old.spd"))
        ...     new = splitpoint.Dictionary.build({"a": "1", "b": "3"}, os.path.join(directory, "new.spd"))
        ...     [(change.kind, change) for change in old.diff(new)]
        [('replaced', Change(key=b'b', old_value=b'2', value=b'3'))]
        """
        return map(Change._make, self._diff(newer, *_positions(start, stop), progress))

    def apply(
        self,
        changes: Iterable[Change],
        path: Optional[_inputs.Path] = None,
        *,
        progress: Union[_inputs.Progress, bool, None] = None,
        **options: Unpack[BuildOptions],
    ) -> int:
        """Makes the changes that :meth:`diff` found: stores the new values, removes the keys without one.

        Returns the new number of pairs. ``path`` and ``options`` are those of :meth:`update`.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     old = splitpoint.Dictionary.build({"a": "1", "b": "2"}, os.path.join(directory, "old.spd"))
        ...     new = splitpoint.Dictionary.build({"a": "1", "c": "3"}, os.path.join(directory, "new.spd"))
        ...     old.apply(old.diff(new)), dict(old) == dict(new)
        (2, True)
        """
        pairs = ((change.key, change.value) for change in changes)
        return self.update(pairs, path, progress=progress, **options)

    def thaw(
        self,
        path: Optional[_inputs.Path] = None,
        *,
        progress: Union[_inputs.Progress, bool, None] = None,
        **options: Unpack[TableOptions],
    ) -> Table:
        """Stores all pairs in the table at ``path``, or in a new one in memory, and returns it open.

        A new table gets the dictionary's hash function, which makes this fast; an existing one keeps its other pairs.
        ``options`` are those of :func:`splitpoint.open`. After an error or Ctrl-C some pairs are stored.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     users = splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory, "users.spd"))
        ...     table = users.thaw()
        >>> table[b"bob"] = b"2"
        >>> sorted(table)
        [b'alice', b'bob']
        """
        if path is None or not os.path.exists(_inputs.path_of(path)):
            figures = self.stats()
            options.setdefault("hash", figures.hash)
            options.setdefault("seed", figures.hash_seed)
            options.setdefault("expected_len", figures.pairs)
        table = Table(path, **options)
        try:
            with _inputs.reporting(progress) as report:
                table._thaw(self, report)
        except BaseException:
            table.close()
            raise
        return table

    def verify(
        self, *, threads: int = 0, progress: Union[_inputs.Progress, bool, None] = None
    ) -> list[str]:
        """Reads everything and returns a description of every fault; an intact dictionary has none.

        ``threads`` is the number of threads, by default one per processor. ``progress`` is called as
        ``progress("verify", done, total)`` with bytes of data. An exception that it raises, or Ctrl-C, ends the check.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory, "users.spd")).verify()
        []
        """
        with _inputs.reporting(progress) as report:
            return self._verify(threads, report)

    def shards(self) -> list[ShardInfo]:
        """Its files in the order of their slots: one with all slots, or those of a directory. Reads nothing.

        Each is a dictionary by itself. :func:`splitpoint.slot` returns the slot of a key.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     users = splitpoint.Dictionary.build({"foo": "1"}, os.path.join(directory, "users.spd"), shards=2)
        ...     [(shard.first_slot, shard.last_slot, shard.pairs) for shard in users.shards()], splitpoint.slot("foo")
        ([(0, 8191, 0), (8192, 16383, 1)], 12182)
        """
        return [ShardInfo(*shard) for shard in self._shards()]

    def stats(self) -> DictionaryStats:
        """Its sizes; reads nothing.

        >>> import splitpoint, tempfile, os
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory, "users.spd")).stats().key_bytes
        5
        """
        return DictionaryStats(**self._stat())
