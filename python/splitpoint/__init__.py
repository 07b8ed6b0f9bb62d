"""Splitpoint: hash tables in memory and in one crash-safe file, and dictionaries larger than memory.

>>> import splitpoint
>>> with splitpoint.memory() as table:
...     table["alice"] = "admin"
...     table["alice"]
b'admin'

===================================  ==================================================================================
:func:`open`, :func:`memory`         a :class:`Table`: ``MutableMapping[bytes, bytes]``, under ``shelve`` too
:class:`Dictionary`                  far more pairs than memory: built once, changed in batches
:func:`restore`, :func:`salvage`     a table from its backup, and what can be read of a damaged one
:mod:`splitpoint.dbm`                a table where ``dbm.ndbm`` or ``dbm.gnu`` is expected
:mod:`splitpoint.lab`                how hash functions and tables behave on your own keys
:mod:`splitpoint.spark`              dictionaries from and for Spark
:mod:`splitpoint.errors`             the exceptions
===================================  ==================================================================================
"""

from splitpoint._splitpoint import __version__, slot
from splitpoint.dictionary import BuildOptions, Change, Dictionary
from splitpoint.errors import (
    AbsentKeyError,
    ArgumentTypeError,
    BuildFailedError,
    BusyError,
    ClosedError,
    CorruptError,
    DeadlockError,
    DiskFullError,
    DuplicateKeyError,
    EncodingError,
    Error,
    ErrorKind,
    ExistingFileError,
    ForkedError,
    FormatError,
    InUseError,
    InvalidArgumentError,
    IoError,
    LockedError,
    MissingFileError,
    MissingLibraryError,
    NoMemoryError,
    NotADictionaryError,
    NotATableError,
    OutOfRangeError,
    PermissionsError,
    PoisonedError,
    ReadOnlyError,
    StaleError,
    StoppedError,
    TooLongError,
    VersionError,
    WrongHashError,
    WrongTypesError,
    error,
)
from splitpoint.figures import DictionaryStats, SalvageReport, ShardInfo, TableCounters, TableStats
from splitpoint.table import Batch, Table, TableOptions, memory, open, restore, salvage
from splitpoint.typed import Codec, TypedTable
from splitpoint.values import Values

__all__ = [
    "AbsentKeyError",
    "ArgumentTypeError",
    "Batch",
    "BuildOptions",
    "BuildFailedError",
    "BusyError",
    "Change",
    "ClosedError",
    "Codec",
    "CorruptError",
    "DeadlockError",
    "Dictionary",
    "DictionaryStats",
    "DiskFullError",
    "DuplicateKeyError",
    "EncodingError",
    "Error",
    "ErrorKind",
    "ExistingFileError",
    "ForkedError",
    "FormatError",
    "InUseError",
    "InvalidArgumentError",
    "IoError",
    "LockedError",
    "MissingFileError",
    "MissingLibraryError",
    "NoMemoryError",
    "NotADictionaryError",
    "NotATableError",
    "OutOfRangeError",
    "PermissionsError",
    "PoisonedError",
    "ReadOnlyError",
    "SalvageReport",
    "ShardInfo",
    "StaleError",
    "StoppedError",
    "Table",
    "TableCounters",
    "TableOptions",
    "TableStats",
    "TooLongError",
    "TypedTable",
    "Values",
    "VersionError",
    "WrongHashError",
    "WrongTypesError",
    "__version__",
    "error",
    "memory",
    "open",
    "restore",
    "salvage",
    "slot",
]
