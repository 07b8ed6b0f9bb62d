"""The result of looking up an array of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

from splitpoint import errors
from splitpoint._splitpoint import ValuesCore


class Values(ValuesCore, Sequence):  # type: ignore[type-arg]  # Python 3.9: Sequence[Optional[bytes]]
    """The values of an array of keys, in the order of the keys; ``None`` for a key that is absent.

    All values are in one buffer. Arrow uses it without a copy (``pyarrow.array(values)``, ``polars.Series(values)``),
    NumPy with one copy of the whole (:meth:`to_numpy`); Python objects are created only when an item is accessed.

    >>> import numpy, splitpoint
    >>> table = splitpoint.memory()
    >>> table.update({b"alice": b"90", b"bob": b"80"})
    >>> values = table.get_many(numpy.array([b"bob", b"carol"]))
    >>> list(values), len(values), values[0]
    ([b'80', None], 2, b'80')
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: int) -> Optional[bytes]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Optional[bytes]]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[bytes, list[Optional[bytes]], None]:
        if isinstance(index, slice):
            item = super().__getitem__
            return [item(i) for i in range(*index.indices(len(self)))]
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Optional[bytes]]:
        item = super().__getitem__
        return (item(i) for i in range(len(self)))

    def __repr__(self) -> str:
        shown = ", ".join(map(_shown, self[:3]))
        return f"splitpoint.Values([{shown}{', ...' if len(self) > 3 else ''}], len={len(self)})"

    def to_list(self) -> list[Optional[bytes]]:
        """The values as a list.

        >>> import numpy, splitpoint
        >>> splitpoint.memory().get_many(numpy.array([b"alice"])).to_list()
        [None]
        """
        return list(self)

    @property
    def present(self) -> Any:
        """Whether each key was present, as a NumPy array of booleans.

        >>> import numpy, splitpoint
        >>> splitpoint.memory().get_many(numpy.array([b"alice"])).present
        array([False])
        """
        import numpy

        return numpy.frombuffer(self._present(), dtype=numpy.bool_)

    def to_numpy(self, dtype: Any = None, missing: Any = None) -> Any:
        """The values as a NumPy array: by default of type ``S`` with the longest length, else their bytes as ``dtype``.

        Absent keys get ``missing``, by default zeros. Copies all bytes once. ``ValueError`` for a value whose length is
        not that of ``dtype``; ``S`` accepts shorter ones.

        >>> import numpy, splitpoint
        >>> table = splitpoint.memory()
        >>> table[b"alice"] = numpy.int64(90).tobytes()
        >>> table.get_many(numpy.array([b"alice", b"bob"])).to_numpy("<i8", missing=-1)
        array([90, -1])
        """
        import numpy

        wanted = numpy.dtype(dtype if dtype is not None else f"S{max(self._longest(), 1)}")
        if wanted.kind == "S":
            if wanted.itemsize == 0:
                wanted = numpy.dtype(f"S{max(self._longest(), 1)}")
            absent = b"" if missing is None else missing
            if self._longest() > wanted.itemsize:
                raise errors.invalid(f"the longest value has {self._longest()} bytes, the dtype {wanted.itemsize}")
            return numpy.array([absent if value is None else value for value in self], dtype=wanted)
        filler = numpy.zeros(1, wanted) if missing is None else numpy.array([missing], wanted)
        return numpy.frombuffer(self._fixed(wanted.itemsize, filler.tobytes()), dtype=wanted)


def _shown(value: Optional[bytes], most: int = 64) -> str:
    return repr(value) if value is None or len(value) <= most else f"{value[:most]!r}..."
