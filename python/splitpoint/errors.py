"""The exceptions of the package.

Every one is an :class:`Error` and also the built-in that a caller expects: a full disk is an ``OSError``, a damaged
file a ``ValueError``, an absent key a ``KeyError``. ``kind`` is stable; the texts are for people and may change.

>>> import splitpoint
>>> try:
...     splitpoint.open("/nowhere/users.spt", "w")
... except FileNotFoundError as error:
...     print(error.kind.name, isinstance(error, splitpoint.Error))
IO True
"""

from __future__ import annotations

import enum
import errno as _errno
import re
from typing import Optional


class ErrorKind(enum.IntEnum):
    """The kind of an error. The numbers are those of the C library; ``CLOSED`` is this package's own."""

    CLOSED = 0
    IO = 1
    DISK_FULL = 2
    CORRUPT = 3
    NOT_A_TABLE = 4
    VERSION = 5
    WRONG_HASH = 6
    INVALID_ARGUMENT = 7
    TOO_LONG = 8
    READ_ONLY = 9
    LOCKED = 10
    POISONED = 11
    WOULD_DEADLOCK = 12
    OUT_OF_MEMORY = 13
    FORKED = 14
    STALE = 15
    DUPLICATE = 16
    STOPPED = 17
    BUSY = 18
    NOT_A_DICTIONARY = 19
    BUILD_FAILED = 20
    WRONG_TYPES = 21
    NOT_FOUND = 200
    IN_USE = 221


class Error(Exception):
    """An error of the library: its ``kind``, a ``message`` that says what happened, a ``hint`` that says what to do."""

    kind: ErrorKind
    message: str
    hint: Optional[str]

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _make, (type(self), self.kind, self.message, self.hint, getattr(self, "errno", None))


class ClosedError(Error, ValueError):
    """The table or dictionary was closed."""


class IoError(Error, OSError):
    """The operating system refused: a failed device, no permission, no such file. ``errno`` says which."""


class MissingFileError(IoError, FileNotFoundError):
    """There is no such file."""


class PermissionsError(IoError, PermissionError):
    """The file may not be opened."""


class ExistingFileError(IoError, FileExistsError):
    """The file exists already."""


class DiskFullError(IoError):
    """No space is left on the disk. Nothing was changed."""


class FormatError(Error, ValueError):
    """The file cannot be used as it is."""


class CorruptError(FormatError):
    """The file contradicts itself: restore a backup, or salvage what can be read."""


class NotATableError(FormatError):
    """Not a table."""


class NotADictionaryError(FormatError):
    """Not a dictionary, or a name at which something else exists."""


class VersionError(FormatError):
    """A file of this library, in a version that it does not read."""


class WrongHashError(FormatError):
    """The table was created with another hash function."""


class InvalidArgumentError(Error, ValueError):
    """An option or argument is outside its range."""


class ArgumentTypeError(Error, TypeError):
    """An option, a key, a value or a source is of a wrong type."""


class OutOfRangeError(Error, IndexError):
    """An index beyond the end."""


class EncodingError(Error, UnicodeEncodeError):
    """A text that UTF-8 cannot encode."""

    kind = ErrorKind.INVALID_ARGUMENT
    hint = "Pass bytes."

    @property
    def message(self) -> str:  # type: ignore[override]
        return UnicodeEncodeError.__str__(self)

    __str__ = UnicodeEncodeError.__str__
    __reduce__ = UnicodeEncodeError.__reduce__  # type: ignore[assignment]


class MissingLibraryError(Error, ImportError):
    """A library that this operation needs is not installed."""


class AbsentKeyError(Error, KeyError):
    """The key is absent: it is ``args[0]``."""

    kind = ErrorKind.NOT_FOUND
    hint = None

    @property
    def message(self) -> str:  # type: ignore[override]
        return f"no key {self.args[0]!r}"

    __str__ = KeyError.__str__
    __reduce__ = KeyError.__reduce__  # type: ignore[assignment]


class InUseError(Error, ValueError):
    """A call inside another one that it would wait for."""


class TooLongError(Error, ValueError):
    """A key or a value is longer than 4 GiB."""


class ReadOnlyError(Error, OSError):
    """A write to a table opened for reading."""


class LockedError(Error, OSError):
    """Another process, or another handle, has the file open for writing."""


class PoisonedError(Error, OSError):
    """An earlier failure made this handle unusable: open the table again."""


class DeadlockError(Error, RuntimeError):
    """The call would wait forever."""


class NoMemoryError(Error, MemoryError):
    """Memory or address space could not be allocated."""


class ForkedError(Error, OSError):
    """The handle was opened in a parent process: open the file again in this one."""


class StaleError(Error, OSError):
    """Another process has written a checkpoint since the file was opened for reading: open it again."""


class DuplicateKeyError(Error, KeyError):
    """A duplicate key where keys must be unique."""

    __str__ = Error.__str__  # that of KeyError quotes the message


class StoppedError(Error, InterruptedError):
    """Cancelled by the caller."""


class WrongTypesError(FormatError):
    """A typed table has other types than it was opened with."""


class BuildFailedError(Error, RuntimeError):
    """An earlier step of this build failed: start it again."""


class BusyError(Error, OSError):
    """The log is full and a backup prevents a checkpoint: try again when the backup is done."""


#: The name of the exception in ``dbm`` modules.
error = Error

_CLASSES: dict[ErrorKind, tuple[type[Error], int]] = {
    ErrorKind.CLOSED: (ClosedError, 0),
    ErrorKind.IO: (IoError, _errno.EIO),
    ErrorKind.DISK_FULL: (DiskFullError, _errno.ENOSPC),
    ErrorKind.CORRUPT: (CorruptError, 0),
    ErrorKind.NOT_A_TABLE: (NotATableError, 0),
    ErrorKind.VERSION: (VersionError, 0),
    ErrorKind.WRONG_HASH: (WrongHashError, 0),
    ErrorKind.INVALID_ARGUMENT: (InvalidArgumentError, 0),
    ErrorKind.TOO_LONG: (TooLongError, 0),
    ErrorKind.READ_ONLY: (ReadOnlyError, _errno.EROFS),
    ErrorKind.LOCKED: (LockedError, _errno.EAGAIN),
    ErrorKind.POISONED: (PoisonedError, _errno.EIO),
    ErrorKind.WOULD_DEADLOCK: (DeadlockError, 0),
    ErrorKind.OUT_OF_MEMORY: (NoMemoryError, 0),
    ErrorKind.FORKED: (ForkedError, _errno.EBADF),
    ErrorKind.STALE: (StaleError, _errno.ESTALE),
    ErrorKind.DUPLICATE: (DuplicateKeyError, 0),
    ErrorKind.STOPPED: (StoppedError, _errno.EINTR),
    ErrorKind.BUSY: (BusyError, _errno.EBUSY),
    ErrorKind.NOT_A_DICTIONARY: (NotADictionaryError, 0),
    ErrorKind.BUILD_FAILED: (BuildFailedError, 0),
    ErrorKind.WRONG_TYPES: (WrongTypesError, 0),
    ErrorKind.IN_USE: (InUseError, 0),
}

#: More specific classes of :class:`IoError`.
_BY_ERRNO: dict[int, type[Error]] = {
    _errno.ENOENT: MissingFileError,
    _errno.EACCES: PermissionsError,
    _errno.EPERM: PermissionsError,
    _errno.EEXIST: ExistingFileError,
}


def of_kind(kind: int, message: str, hint: Optional[str] = None, errno: Optional[int] = None) -> Error:
    """The exception for a kind of error; the native module calls it.

    >>> of_kind(2, "users.spt: write", "Make room on the disk.")
    DiskFullError(28, 'users.spt: write. Make room on the disk.')
    """
    number = ErrorKind(kind) if kind in ErrorKind._value2member_map_ else ErrorKind.IO
    cls, default_errno = _CLASSES[number]
    errno = errno or default_errno
    if number is ErrorKind.IO:
        cls = _BY_ERRNO.get(errno, cls)
    return _make(cls, number, message, hint, errno)


def _make(cls: type[Error], kind: ErrorKind, message: str, hint: Optional[str], errno: Optional[int] = None) -> Error:
    text = f"{message}. {hint}" if hint else message
    made = cls(errno, text) if issubclass(cls, OSError) else cls(text)
    made.kind, made.message, made.hint = kind, message, hint
    return made


def invalid(message: str, hint: Optional[str] = None) -> Error:
    """An argument outside its range."""
    return _make(InvalidArgumentError, ErrorKind.INVALID_ARGUMENT, message, hint)


def wrong_type(message: str, hint: Optional[str] = None) -> Error:
    """An argument of a wrong type."""
    return _make(ArgumentTypeError, ErrorKind.INVALID_ARGUMENT, message, hint)


def out_of_range(message: str, hint: Optional[str] = None) -> Error:
    """An index beyond the end."""
    return _make(OutOfRangeError, ErrorKind.INVALID_ARGUMENT, message, hint)


def in_use(message: str, hint: Optional[str] = None) -> Error:
    """A call inside another one."""
    return of_kind(ErrorKind.IN_USE, message, hint)


def missing_library(message: str, hint: Optional[str] = None) -> Error:
    """A library that is not installed."""
    return _make(MissingLibraryError, ErrorKind.INVALID_ARGUMENT, message, hint)


def not_encodable(error: UnicodeEncodeError) -> Error:
    """A text that UTF-8 cannot encode."""
    return EncodingError(*error.args)


#: The form in which pyarrow writes an exception into the message of a stream.
_RAISED = re.compile(r"^(KeyboardInterrupt|SystemExit|MemoryError)(?:: (.*))?$", re.MULTILINE)


def of_stream(code: int, message: str) -> BaseException:
    """The exception for an Arrow stream that failed with a number and a message; the native module calls it.

    >>> of_stream(22, "Unknown error: 3. Detail: Python exception: Traceback (most recent call last):\\nSystemExit: 3")
    SystemExit(3)
    """
    raised = _RAISED.findall(message) if "Python exception" in message else []
    if raised:
        name, text = raised[-1]
        if name == "KeyboardInterrupt":
            return KeyboardInterrupt(*filter(None, [text]))
        if name == "SystemExit":
            return SystemExit(int(text) if re.fullmatch(r"-?\d+", text) else text or None)
    if code == _errno.ENOMEM:
        return of_kind(ErrorKind.OUT_OF_MEMORY, f"the Arrow stream: {message}")
    return invalid(f"the Arrow stream: {message}")
