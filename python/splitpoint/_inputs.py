"""What users pass, in the form that the native module takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional, Union

Progress = Callable[[str, int, Optional[int]], object]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def path_of(path: Path) -> str:
    return os.fsdecode(path)


def get_many(core: Any, keys: Any, default: Any) -> Any:
    """``core``'s values of ``keys``: a list for an iterable, ``Values`` for an array."""
    if hasattr(keys, "__arrow_c_array__") or hasattr(keys, "__arrow_c_stream__"):
        return core._get_column(keys)
    if hasattr(keys, "dtype") and hasattr(keys, "tobytes"):
        return _get_numpy(core, keys)
    return core._get_list(keys, default)


def _get_numpy(core: Any, keys: Any) -> Any:
    import numpy

    if keys.ndim != 1:
        raise ValueError(f"an array of {keys.ndim} dimensions: keys are an array of one")
    if keys.dtype.kind == "U":
        keys = numpy.char.encode(keys, "utf-8")
    if keys.dtype.kind == "O":
        raise TypeError("an array of objects: pass keys.tolist(), or an array of bytes")
    if keys.dtype.itemsize == 0:
        keys = keys.astype("S1")
    if keys.dtype.byteorder == ">" or (keys.dtype.byteorder == "=" and not numpy.little_endian):
        keys = keys.astype(keys.dtype.newbyteorder("<"))
    return core._get_fixed(keys.tobytes(), keys.dtype.itemsize, keys.dtype.kind == "S")


def pairs_of(source: Any, key: Optional[str], value: Optional[str]) -> Any:
    """An iterable of pairs, or an object with an Arrow stream, for what ``source`` is."""
    if isinstance(source, (str, bytes, os.PathLike)):
        return _parquet(path_of(source), key, value)
    if isinstance(source, Mapping):
        return source.items()
    if hasattr(source, "iter_batches") and hasattr(source, "schema_arrow"):  # pyarrow.parquet.ParquetFile
        return _batches(source, key, value)
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):
        return source.collect()  # polars.LazyFrame
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _pandas(source, key, value)
    if hasattr(source, "__arrow_c_array__") and not hasattr(source, "__arrow_c_stream__"):
        return _table_of_batch(source)
    if hasattr(source, "__arrow_c_stream__") or isinstance(source, Iterable):
        return source
    raise TypeError(
        f"cannot take pairs from a {type(source).__name__}: pass an iterable of pairs, a mapping, a pandas, Polars or "
        "Arrow table, or the path of a Parquet file"
    )


def _columns(names: list[Any], key: Optional[str], value: Optional[str]) -> list[Any]:
    if len(names) < 2 and (key is None or value is None):
        raise ValueError(f"a column of keys and one of values are needed, there are {names}")
    chosen = [names[0] if key is None else key, names[1] if value is None else value]
    for name in chosen:
        if name not in names:
            raise ValueError(f"no column {name!r}, there are {names}")
    return chosen


def _pandas(frame: Any, key: Optional[str], value: Optional[str]) -> Any:
    chosen = frame[_columns(list(frame.columns), key, value)]
    try:
        # Without the conversion of an index that nobody asked for; needs pyarrow.
        import pyarrow

        return pyarrow.Table.from_pandas(chosen, preserve_index=False)
    except ImportError:
        return zip(chosen.iloc[:, 0], chosen.iloc[:, 1])


def _parquet(path: str, key: Optional[str], value: Optional[str]) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        try:
            import polars
        except ImportError:
            raise ImportError(f"{path}: to read Parquet, install pyarrow or polars") from None
        return polars.read_parquet(path)
    return _batches(pyarrow.parquet.ParquetFile(path), key, value)


def _batches(file: Any, key: Optional[str], value: Optional[str]) -> Any:
    """The two columns of a Parquet file, as a stream of record batches."""
    import pyarrow

    chosen = _columns(file.schema_arrow.names, key, value)
    schema = pyarrow.schema([file.schema_arrow.field(name) for name in chosen])
    batches = (batch.select(chosen) for batch in file.iter_batches(columns=chosen))
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


def _table_of_batch(batch: Any) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches([pyarrow.record_batch(batch)])


class Bars:
    """Progress bars of tqdm, one a phase."""

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
        return self._progress

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.close()
