"""Typed tables: mappings of Python's types, stored in a table of bytes.

The file records how keys and values are stored, and refuses another way. ``int``, ``str`` and ``bytes`` are stored as Rust's
``i64``, ``str`` and ``[u8]``, so that ``Table::typed`` reads them.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from splitpoint import errors

if TYPE_CHECKING:
    from typing_extensions import Self

    from splitpoint.table import Table


class Codec(NamedTuple):
    """How one type is stored. The table records the name, which must be of no other encoding."""

    name: str
    encode: Callable[[Any], Union[bytes, str]]
    decode: Callable[[bytes], Any]


_INT_BYTES = 8


def _int_bytes(number: int) -> bytes:
    if isinstance(number, bool) or not isinstance(number, int):
        raise errors.wrong_type(f"{number!r} is no int")
    try:
        return number.to_bytes(_INT_BYTES, "little", signed=True)
    except OverflowError:
        raise errors.invalid(f"{number} has no room in 64 bits: store it as str") from None


def _int_of(data: bytes) -> int:
    if len(data) != _INT_BYTES:
        raise ValueError(f"{len(data)} bytes are no int")
    return int.from_bytes(data, "little", signed=True)


def _str_bytes(text: str) -> bytes:
    if not isinstance(text, str):
        raise errors.wrong_type(f"{text!r} is no str")
    return text.encode()


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _json_key_bytes(key: Any) -> bytes:
    """Equal keys have equal bytes: members are sorted, and a float that is an integer is written as one."""
    return json.dumps(_plain(key), ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()


def _plain(part: Any) -> Any:
    if isinstance(part, dict):
        for name in part:
            if not isinstance(name, str):
                raise errors.wrong_type(f"a member of a JSON key has a str as its name, not {name!r}")
        return {name: _plain(member) for name, member in part.items()}
    if isinstance(part, (list, tuple)):
        return [_plain(member) for member in part]
    if isinstance(part, bool):
        return part
    return int(part) if isinstance(part, float) and part.is_integer() else part


#: ``int``, ``str``, ``bytes``, ``"json"``, ``"pickle"`` (values only), or a codec of one's own.
How = Union[type[int], type[str], type[bytes], str, Codec]

_BYTES = Codec("bytes", lambda value: value, lambda data: data)
_KNOWN: dict[Any, Codec] = {
    bytes: _BYTES,
    str: Codec("str", _str_bytes, bytes.decode),
    int: Codec("i64", _int_bytes, _int_of),
    "json": Codec("json", _json_bytes, json.loads),
    "pickle": Codec("pickle", pickle.dumps, pickle.loads),
}


#: The names of both types, as the file has room for them.
_NAMES_BYTES = 64


def codecs(key: Optional[How], value: Optional[How]) -> tuple[Codec, Codec]:
    """The codecs of both, checked before a file is opened."""
    if key == "pickle":
        raise errors.invalid(
            "key is 'pickle', which writes equal objects as different bytes, so a key would not be found: use int, str, "
            "bytes, 'json' or a splitpoint.Codec"
        )
    made = _codec("key", key), _codec("value", value)
    names = f"{made[0].name} -> {made[1].name}"
    if len(names.encode()) > _NAMES_BYTES:
        raise errors.invalid(f"the names of the types, {names!r}, are longer than {_NAMES_BYTES} bytes")
    return (made[0]._replace(encode=_json_key_bytes) if key == "json" else made[0]), made[1]


def _codec(role: str, how: Optional[How]) -> Codec:
    if how is None:
        return _BYTES
    if isinstance(how, Codec):
        if not (isinstance(how.name, str) and callable(how.encode) and callable(how.decode)):
            raise errors.wrong_type(f"{role} is {how!r}, expected a name and two functions")
        return how
    try:
        return _KNOWN[how]
    except (KeyError, TypeError):
        known = "int, str, bytes, 'json', 'pickle' (a value) or a splitpoint.Codec"
        raise errors.invalid(f"{role} is {how!r}, expected {known}") from None


#: No default.
_ABSENT: Any = object()


class TypedTable(MutableMapping):  # type: ignore[type-arg]
    """A mapping of Python's types in a table; made by :meth:`Table.typed <splitpoint.Table.typed>` and
    :func:`splitpoint.open` with ``key`` or ``value``.

    ``"pickle"`` runs what the file says when a value is read: only for files that you trust. Keys are compared by their
    bytes: a codec of your own must write equal keys the same way. ``"json"`` sorts the members of a key. :attr:`table`
    has everything else: batches, scans, backups.

    >>> import splitpoint
    >>> ages = splitpoint.memory().typed(key=str, value=int)
    >>> ages["alice"] = 30
    >>> ages["alice"] += 1
    >>> dict(ages)
    {'alice': 31}
    """

    __slots__ = ("_key", "_value", "table")

    #: The table of bytes.
    table: Table

    def __init__(self, table: Table, key: Optional[How] = None, value: Optional[How] = None) -> None:
        self._key, self._value = codecs(key, value)
        table._record_types(f"{self._key.name} -> {self._value.name}")
        self.table = table

    def __repr__(self) -> str:
        return f"<splitpoint.TypedTable {self._key.name} -> {self._value.name}, {self.table!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.table.close()

    def __getitem__(self, key: Any) -> Any:
        try:
            value = self.table[self._key.encode(key)]
        except errors.AbsentKeyError:
            raise errors.AbsentKeyError(key) from None
        return self._value.decode(value)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.table[self._key.encode(key)] = self._value.encode(value)

    def __delitem__(self, key: Any) -> None:
        if not self.table.remove(self._key.encode(key)):
            raise errors.AbsentKeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._key.encode(key) in self.table

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Any]:
        return map(self._key.decode, self.table)

    def values(self) -> ValuesView[Any]:
        """The values, in hash order.

        >>> import splitpoint
        >>> ages = splitpoint.memory().typed(key=str, value=int)
        >>> ages["alice"] = 30
        >>> list(ages.values())
        [30]
        """
        return _Values(self)

    def items(self) -> ItemsView[Any, Any]:
        """The pairs, in hash order. One pass: no lookup for each key.

        >>> import splitpoint
        >>> ages = splitpoint.memory().typed(key=str, value="json")
        >>> ages["alice"] = [30, 31]
        >>> list(ages.items())
        [('alice', [30, 31])]
        """
        return _Items(self)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of ``key``; stores ``default`` first if the key is absent. Atomic.

        >>> import splitpoint
        >>> ages = splitpoint.memory().typed(key=str, value=int)
        >>> ages.setdefault("alice", 30), ages.setdefault("alice", 40)
        (30, 30)
        """
        return self._value.decode(self.table.setdefault(self._key.encode(key), self._value.encode(default)))

    def pop(self, key: Any, default: Any = _ABSENT) -> Any:
        """Removes ``key`` and returns its value; if it is absent, ``default``, or without one ``KeyError``. Atomic.

        >>> import splitpoint
        >>> ages = splitpoint.memory().typed(key=str, value=int)
        >>> ages["alice"] = 30
        >>> ages.pop("alice"), ages.pop("alice", None)
        (30, None)
        """
        value = self._take(self._key.encode(key))
        if value is not _ABSENT:
            return value
        if default is _ABSENT:
            raise errors.AbsentKeyError(key)
        return default

    def popitem(self) -> tuple[Any, Any]:
        """Removes the first pair of hash order and returns it; ``KeyError`` if the table is empty.

        >>> import splitpoint
        >>> ages = splitpoint.memory().typed(key=str, value=int)
        >>> ages["alice"] = 30
        >>> ages.popitem()
        ('alice', 30)
        """
        while True:
            stored = self.table.firstkey()
            if stored is None:
                raise errors.AbsentKeyError("popitem(): the table is empty")
            key, value = self._key.decode(stored), self._take(stored)
            if value is not _ABSENT:
                return key, value

    def _take(self, key: Union[bytes, str]) -> Any:
        """Removes an encoded key and returns its value, or ``_ABSENT``. A value that cannot be decoded stays."""
        while True:
            stored = self.table.get(key)
            if stored is None:
                return _ABSENT
            value = self._value.decode(stored)
            if self.table.compare_and_set(key, stored, None):
                return value

    def clear(self) -> None:
        """Removes all pairs.

        >>> import splitpoint
        >>> ages = splitpoint.memory().typed(key=str, value=int)
        >>> ages["alice"] = 30
        >>> ages.clear()
        >>> len(ages)
        0
        """
        self.table.clear()

    def sync(self) -> None:
        """Makes all earlier writes durable.

        >>> import splitpoint
        >>> splitpoint.memory().typed(key=str, value=int).sync()
        """
        self.table.sync()

    def close(self) -> None:
        """Closes the table.

        >>> import splitpoint
        >>> splitpoint.memory().typed(key=str, value=int).close()
        """
        self.table.close()


class _Values(ValuesView[Any]):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        typed: TypedTable = self._mapping  # type: ignore[attr-defined]
        return map(typed._value.decode, typed.table.values())


class _Items(ItemsView[Any, Any]):
    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        typed: TypedTable = self._mapping  # type: ignore[attr-defined]
        decode_key, decode_value = typed._key.decode, typed._value.decode
        return ((decode_key(key), decode_value(value)) for key, value in typed.table.items())
