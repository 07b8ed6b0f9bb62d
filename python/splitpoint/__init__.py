"""Splitpoint: hash tables in memory and in one crash-safe file, and dictionaries larger than memory.

>>> import splitpoint
>>> with splitpoint.memory() as table:
...     table["alice"] = "admin"
...     table["alice"]
b'admin'

===================================  ==================================================================================
:func:`open`, :func:`memory`         a :class:`Table`: ``MutableMapping[bytes, bytes]``, under ``shelve`` too
:class:`Dictionary`                  far more pairs than memory: built once, changed in batches
:mod:`splitpoint.lab`                how hash functions and tables behave on your own keys
:mod:`splitpoint.spark`              dictionaries from and for Spark
:mod:`splitpoint.errors`             the exceptions
===================================  ==================================================================================
"""

from splitpoint._splitpoint import __version__, slot
from splitpoint.dictionary import BuildOptions, Change, Dictionary
from splitpoint.errors import (
    BusyError,
    ClosedError,
    CorruptError,
    DeadlockError,
    DiskFullError,
    DuplicateKeyError,
    Error,
    ErrorKind,
    ForkedError,
    FormatError,
    InvalidArgumentError,
    IoError,
    LockedError,
    MissingFileError,
    NoMemoryError,
    NotATableError,
    PermissionsError,
    PoisonedError,
    ReadOnlyError,
    StaleError,
    StoppedError,
    TooLongError,
    VersionError,
    WrongHashError,
    error,
)
from splitpoint.figures import DictionaryStats, ShardInfo, TableCounters, TableStats
from splitpoint.table import Batch, Table, TableOptions, memory, open
from splitpoint.values import Values

__all__ = [
    "Batch",
    "BuildOptions",
    "BusyError",
    "Change",
    "ClosedError",
    "CorruptError",
    "DeadlockError",
    "Dictionary",
    "DictionaryStats",
    "DiskFullError",
    "DuplicateKeyError",
    "Error",
    "ErrorKind",
    "ForkedError",
    "FormatError",
    "InvalidArgumentError",
    "IoError",
    "LockedError",
    "MissingFileError",
    "NoMemoryError",
    "NotATableError",
    "PermissionsError",
    "PoisonedError",
    "ReadOnlyError",
    "ShardInfo",
    "StaleError",
    "StoppedError",
    "Table",
    "TableCounters",
    "TableOptions",
    "TableStats",
    "TooLongError",
    "Values",
    "VersionError",
    "WrongHashError",
    "__version__",
    "error",
    "memory",
    "open",
    "slot",
]
