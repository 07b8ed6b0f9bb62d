"""A Spark cluster of two worker processes on this machine, which all tests share: it takes half a minute to start."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.task.maxFailures": "2",
        # A copy of a task that is slower than the others begins soon: test_a_speculative_copy needs it.
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.minTaskRuntime": "4s",
        "spark.executorEnv.PYTHONPATH": str(HERE),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(os.environ.get("SPARK_MASTER", "local-cluster[2,1,1024]")).appName("splitpoint")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> Iterator[str]:
    """Where a test has its dictionary; nothing else may be left beside it."""
    yield str(tmp_path / "users.spd")
    left = [entry.name for entry in tmp_path.iterdir() if entry.name != "users.spd" and not entry.name.startswith("test-")]
    assert left == []
