"""Converts what users pass to the form that the native module takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, Optional, Union

from splitpoint import errors

Progress = Callable[[str, int, Optional[int]], object]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def path_of(path: Path) -> str:
    """The path that a handle stores: absolute, as the process may change its directory. Links are not resolved."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise errors.wrong_type(f"a path is a str, bytes or os.PathLike, not {type(path).__name__}") from None
    if not text or os.path.isabs(text):
        return text
    try:
        return os.path.join(os.getcwd(), text)
    except OSError:  # the directory was removed
        return text


def get_many(core: Any, keys: Any, default: Any) -> Any:
    """Looks up ``keys`` in ``core``: returns a list for an iterable, ``Values`` for an array."""
    if hasattr(keys, "__arrow_c_array__") or hasattr(keys, "__arrow_c_stream__"):
        refuse_objects(keys)
        return core._get_column(keys)
    if hasattr(keys, "dtype") and hasattr(keys, "tobytes"):
        return _get_numpy(core, keys)
    return core._get_list(keys, default)


def _get_numpy(core: Any, keys: Any) -> Any:
    import numpy

    if keys.ndim != 1:
        raise errors.invalid(f"an array of {keys.ndim} dimensions: keys are an array of one")
    nulls = None
    if isinstance(keys, numpy.ma.MaskedArray):
        mask, keys = numpy.ma.getmaskarray(keys), keys.data
        # A record is null if any part of it is masked.
        nulls = numpy.array([any(numpy.atleast_1d(row).tolist()) for row in mask]) if mask.dtype.names else mask
    dtype = keys.dtype
    if dtype.kind == "T":  # StringDType, whose array holds addresses
        return core._get_items(_texts(keys, nulls, getattr(dtype, "na_object", None)))
    if dtype.kind == "U":
        keys = numpy.char.encode(keys, "utf-8")
    elif dtype.hasobject:
        raise errors.wrong_type("an array of objects: pass keys.tolist(), or an array of bytes")
    elif dtype.char in "gG":
        raise errors.wrong_type("an array of long doubles, some bytes of which mean nothing: use another dtype")
    if keys.dtype.itemsize == 0:
        keys = keys.astype("S1")
    keys = keys.astype(keys.dtype.newbyteorder("<"), copy=False)
    masked = None if nulls is None else nulls.astype(numpy.uint8).tobytes()
    return core._get_fixed(keys.tobytes(), keys.dtype.itemsize, keys.dtype.kind == "S", masked)


def _texts(keys: Any, nulls: Any, missing: Any) -> Iterator[Optional[str]]:
    """The texts of an array of StringDType; ``None`` for masked or missing ones."""
    for row, key in enumerate(keys):
        is_text = isinstance(key, str) and (not isinstance(missing, str) or key != missing)
        yield key if is_text and (nulls is None or not nulls[row]) else None


def pairs_of(source: Any, key: Optional[str], value: Optional[str]) -> Any:
    """Converts ``source`` to an iterable of pairs or an object with an Arrow stream."""
    if isinstance(source, (str, bytes, os.PathLike)):
        return _parquet(path_of(source), key, value)
    if isinstance(source, Mapping):
        return source.items()
    if hasattr(source, "iter_batches") and hasattr(source, "schema_arrow"):  # pyarrow.parquet.ParquetFile
        return _batches(source, key, value)
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):
        source = source.collect()  # polars.LazyFrame
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(source, polars.DataFrame):
        source = source.select(columns_of(source.columns, key, value))
    refuse_objects(source)
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _pandas(source, key, value)
    is_arrow = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    if is_arrow or isinstance(source, Iterable):
        return source
    raise errors.wrong_type(
        f"cannot take pairs from a {type(source).__name__}: pass an iterable of pairs, a mapping, a pandas, Polars or "
        "Arrow table, or the path of a Parquet file"
    )


def refuse_objects(source: Any) -> None:
    """Refuses Polars frames and series of objects: Polars exports their addresses as binary strings of 8 bytes."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(source, (polars.DataFrame, polars.Series)):
        return
    columns = source.get_columns() if isinstance(source, polars.DataFrame) else [source]
    for column in columns:
        fields = column.dtype.to_schema().values() if isinstance(column.dtype, polars.Struct) else [column.dtype]
        if any(dtype == polars.Object for dtype in fields):
            raise errors.wrong_type(f"the column {column.name!r} has objects: keys and values are bytes or str")


def columns_of(names: list[Any], key: Optional[str], value: Optional[str]) -> list[Any]:
    """The columns of keys and values: the named ones; of two columns, the first, the second, or the remaining one."""
    for name in (key, value):
        if name is not None and names.count(name) != 1:
            raise errors.invalid(f"{'several columns' if name in names else 'no column'} {name!r}, there are {names}")
    if key is not None and value is not None:
        return [key, value]
    if len(names) < 2:
        raise errors.invalid(f"a column of keys and one of values are needed, there are {names}")
    if len(names) > 2:
        raise errors.invalid(f"{len(names)} columns, {names}: name the two to take by key= and value=")
    if names[0] == names[1]:
        raise errors.invalid(f"several columns {names[0]!r}, there are {names}")
    if key is not None:
        return [key, names[1 - names.index(key)]]
    if value is not None:
        return [names[1 - names.index(value)], value]
    return names


def _pandas(frame: Any, key: Optional[str], value: Optional[str]) -> Any:
    names = [name for name in getattr(frame.index, "names", []) if name is not None]
    if names and (key is None or value is None):
        raise errors.invalid(
            f"the index {names} would be left out: use reset_index(), or name the two columns by key= and value="
        )
    chosen = frame[columns_of(list(frame.columns), key, value)]
    try:
        # Leave out the index, which was not requested; needs pyarrow.
        import pyarrow

        return pyarrow.Table.from_pandas(chosen, preserve_index=False)
    except ImportError:
        columns = (chosen.iloc[:, number] for number in range(2))
        return zip(*(column.astype(str) if column.dtype.kind in "iu" else column for column in columns))


def _parquet(path: str, key: Optional[str], value: Optional[str]) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        try:
            import polars
        except ImportError:
            raise errors.missing_library(f"{path}: Parquet is read by pyarrow or polars", "Install one.") from None
        return polars.read_parquet(path)
    return _batches(pyarrow.parquet.ParquetFile(path), key, value)


def _batches(file: Any, key: Optional[str], value: Optional[str]) -> Any:
    """The two columns of a Parquet file, as a stream of record batches."""
    import pyarrow

    chosen = columns_of(file.schema_arrow.names, key, value)
    schema = pyarrow.schema([file.schema_arrow.field(name) for name in chosen])
    batches = (batch.select(chosen) for batch in file.iter_batches(columns=chosen))
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


#: Methods of Python's mappings that call an item's method; here they call the library instead.
_CALLERS = {
    "__getitem__": ("get", "items", "values", "pop", "popitem", "setdefault"),
    "__setitem__": ("setdefault", "update"),
    "__delitem__": ("pop", "popitem"),
}


def use_overridden(cls: type, mapping: type) -> None:
    """Makes a subclass's overridden methods take effect in the methods that Python's mappings build on them."""
    for name, callers in _CALLERS.items():
        if name in cls.__dict__:
            for caller in callers:
                if caller not in cls.__dict__ and hasattr(mapping, caller):
                    setattr(cls, caller, getattr(mapping, caller))


class Bars:
    """Progress bars of tqdm, one per phase."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._phase: Optional[str] = None
        self._bar: Any = None

    def __call__(self, phase: str, done: int, total: Optional[int]) -> None:
        if phase != self._phase:
            self.close()
            self._phase = phase
            unit = "B" if phase == "backup" else " pairs"
            self._bar = self._tqdm(desc=phase, total=total, unit_scale=True, unit=unit)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class reporting:
    """A context with the callback for ``progress``: a callable, or ``True`` for bars of tqdm, if it is installed."""

    def __init__(self, progress: Union[Progress, bool, None]) -> None:
        self._progress = progress
        self._bars: Optional[Bars] = None

    def __enter__(self) -> Optional[Progress]:
        if self._progress is True:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return None
            self._bars = Bars(tqdm)
            return self._bars
        if self._progress is None or self._progress is False:
            return None
        if not callable(self._progress):
            raise errors.wrong_type(f"progress is {self._progress!r}, expected True or a callable")
        return self._progress

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.close()
