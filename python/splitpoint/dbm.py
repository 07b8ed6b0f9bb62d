"""Tables with the interface of ``dbm.ndbm`` and ``dbm.gnu``, for programs that use these, ``dbm`` or ``shelve``.

>>> import splitpoint.dbm, tempfile, os
>>> directory = tempfile.TemporaryDirectory()
>>> with splitpoint.dbm.open(os.path.join(directory.name, "users"), "c") as db:
...     db["alice"] = "admin"
...     db.keys(), db.get("bob", b"-")
([b'alice'], b'-')
>>> directory.cleanup()

``keys()`` is a list, and every failure except an absent key is :class:`error`, an ``OSError``. The file has exactly the
given name. For features that those modules lack, open the file with :func:`splitpoint.open`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from splitpoint import errors
from splitpoint.table import _ABSENT, Table

if TYPE_CHECKING:
    from typing_extensions import Self

    from splitpoint.table import Bytes

Result = TypeVar("Result")

library = "Splitpoint"
#: Modes of opening, and what may follow one: fast, synchronized, unlocked.
open_flags = "rwcnfsu"
_MAGIC = b"SPLITPNT"


class error(errors.Error, OSError):
    """Every failure except the ``KeyError`` of an absent key."""

    __str__ = OSError.__str__


def _error(message: str, failed: Optional[errors.Error] = None, file: Optional[object] = None) -> error:
    number = getattr(failed, "errno", None)
    made = error(message) if number is None else error(number, message, *([] if file is None else [file]))
    made.kind = errors.ErrorKind.INVALID_ARGUMENT if failed is None else failed.kind
    made.message, made.hint = message, None if failed is None else failed.hint
    return made


def _closed() -> error:
    # The modules use different messages, which programs may compare.
    stands_for_gnu = sys.modules[__name__] in (sys.modules.get("_gdbm"), sys.modules.get("dbm.gnu"))
    made = _error(f"{'GDBM' if stands_for_gnu else 'DBM'} object has already been closed")
    made.kind = errors.ErrorKind.CLOSED
    return made


class Database(MutableMapping):  # type: ignore[type-arg]
    """An open table, made by :func:`open`."""

    __slots__ = ("_table",)
    _table: Table

    def __new__(cls, *_: Any, **__: Any) -> Self:
        raise TypeError(f"cannot create '{cls.__module__}.{cls.__name__}' instances: use open")

    def _do(self, call: Callable[..., Result], *arguments: Any) -> Result:
        if self._table.closed:
            raise _closed()
        try:
            return call(self._table, *arguments)
        except (KeyError, TypeError, UnicodeError):
            raise
        except errors.ClosedError:
            raise _closed() from None
        except errors.Error as failed:
            raise _error(str(failed), failed) from failed

    def __getitem__(self, key: Bytes) -> bytes:
        return self._do(Table.__getitem__, key)

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        self._do(Table.__setitem__, key, value)

    def __delitem__(self, key: Bytes) -> None:
        self._do(Table.__delitem__, key)

    def __contains__(self, key: object) -> bool:
        return self._do(Table.__contains__, key)

    def __len__(self) -> int:
        return self._do(Table.__len__)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def keys(self) -> list[bytes]:  # type: ignore[override]
        """All keys."""
        return self._do(lambda table: list(table))

    def get(self, key: Bytes, default: Any = None) -> Any:
        """The value of ``key``, or ``default`` if it is absent."""
        return self._do(Table.get, key, default)

    def setdefault(self, key: Bytes, default: Bytes = b"") -> bytes:  # type: ignore[override]
        """The value of ``key``; stores ``default`` first if the key is absent."""
        return self._do(Table.setdefault, key, default)

    def pop(self, key: Bytes, default: Any = _ABSENT) -> Any:
        """Removes ``key`` and returns its value; if it is absent, ``default``, or without one ``KeyError``."""
        return self._do(Table.pop, key, default)

    def popitem(self) -> tuple[bytes, bytes]:
        """Removes a pair and returns it; ``KeyError`` if the table is empty."""
        return self._do(Table.popitem)

    def clear(self) -> None:
        """Removes all pairs."""
        self._do(Table.clear)

    def firstkey(self) -> Optional[bytes]:
        """The first key, in no particular order; ``None`` if there is none."""
        return self._do(Table.firstkey)

    def nextkey(self, key: Bytes) -> Optional[bytes]:
        """The key after ``key``, which may have been removed; ``None`` at the end."""
        return self._do(Table.nextkey, key)

    def sync(self) -> None:
        """Makes all earlier writes durable."""
        self._do(Table.sync)

    def reorganize(self) -> None:
        """Shrinks the file to what its pairs need."""
        self._do(Table.reorganize)

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if not self._table.closed:
            self._do(Table.close)

    def __enter__(self) -> Self:
        if self._table.closed:
            raise _closed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(file: Any, flag: str = "r", mode: int = 0o666, /) -> Database:
    """Opens the table in ``file``.

    ``flag`` is ``"r"`` to read, ``"w"`` to write, ``"c"`` or ``"rw"`` to create it if it is absent, ``"n"`` for an
    empty one. Of the letters that ``dbm.gnu`` takes after it, ``s`` makes each write durable; ``f`` and ``u`` change
    nothing.

    >>> import splitpoint.dbm
    >>> try:
    ...     splitpoint.dbm.open("/nowhere/users")
    ... except splitpoint.dbm.error as error:
    ...     error.filename
    '/nowhere/users'
    """
    if not isinstance(flag, str):
        raise TypeError(f"open() argument 2 must be str, not {type(flag).__name__}")
    letter, more = ("c", "") if flag == "rw" else (flag[:1], flag[1:])
    if letter not in ("r", "w", "c", "n"):
        raise _error("arg 2 to open should be 'r', 'w', 'c', or 'n'")
    for other in more:
        if other not in "fsu":
            raise _error(f"Flag '{other}' is not supported.")
    try:
        table = Table(file, letter, mode, durability="sync" if "s" in more else "os")
    except TypeError:
        raise
    except errors.Error as failed:
        raise _error(str(failed), failed, os.fsdecode(file)) from failed
    made: Database = object.__new__(Database)
    made._table = table
    return made


def use_by_default() -> None:
    """Makes new files of ``dbm.open`` and ``shelve.open`` tables, and lets both recognize tables.

    >>> import dbm, os, splitpoint.dbm, tempfile
    >>> splitpoint.dbm.use_by_default()
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     dbm.open(os.path.join(directory, "users"), "c").close()
    ...     dbm.whichdb(os.path.join(directory, "users"))
    'splitpoint.dbm'
    """
    import dbm as python
    import importlib

    for name in python._names:  # type: ignore[attr-defined]  # as dbm.open does it where there is no default yet
        try:
            python._modules.setdefault(name, importlib.import_module(name))  # type: ignore[attr-defined]
        except ImportError:
            continue
    own, others = sys.modules[__name__], python.whichdb
    python._modules[__name__] = python._defaultmod = own  # type: ignore[attr-defined]

    def whichdb(filename: Any) -> Optional[str]:
        return __name__ if _is_table(filename) else others(filename)

    if others.__module__ != __name__:
        python.whichdb = whichdb


def _is_table(file: Any) -> bool:
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            return opened.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


__all__ = ["Database", "error", "library", "open", "open_flags", "use_by_default"]
