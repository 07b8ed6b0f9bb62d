"""Data sources and functions whose tasks fail, which executors import."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from typing import Any

import pyarrow
from splitpoint import spark as splitpoint_spark

#: Longer than the rest of any test.
SLEEP_SECONDS = 300


def first_time(marker: str) -> bool:
    """Whether no process was here before."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def failing_after_a_batch(marker: str, always: bool) -> Any:
    """Rows as they are, and an error behind the first batch: in one task once, or in every attempt."""

    def rows(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 1 and (first_time(marker) or always):
                raise RuntimeError("a fault for the test")
            yield batch

    return rows


class Faulty(splitpoint_spark.DataSource):
    """Its writer does what the option ``fault`` says, at the place of it."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        fault, marker = self.options.pop("fault"), self.options.pop("marker")
        writer = _Faulty(self._path(), self.options, schema, overwrite)
        writer.fault, writer.marker = fault, marker
        return writer


class _Faulty(splitpoint_spark._Writer):
    fault: str
    marker: str

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Any:
        if self.fault == "small files":
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        if self.fault == "slow before" and first_time(self.marker):
            time.sleep(SLEEP_SECONDS)
        written = super().write(iterator)
        if self.fault == "killed" and first_time(self.marker):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "slow after" and first_time(self.marker):
            time.sleep(SLEEP_SECONDS)
        return written
