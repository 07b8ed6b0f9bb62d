"""A Spark cluster of two worker processes on this machine, which all tests share: it takes some seconds to start."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

HERE = pathlib.Path(__file__).parent


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the cluster. Workers have hosts of their own: Spark copies a task only to another host.

    With SPARK_MASTER set, for example to local[2,2], that is used instead; the test of copies then fails.
    """
    if "SPARK_MASTER" in os.environ:
        yield os.environ["SPARK_MASTER"]
        return
    home, work = pathlib.Path(pyspark.__file__).parent, tmp_path_factory.mktemp("work")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(work)}
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as running, open(work / "log", "wb") as log:

        def start(name: str, *arguments: str) -> None:
            program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", "0"]
            process = subprocess.Popen([*program, *arguments], env=environment, stdout=log, stderr=log)
            running.callback(process.wait)
            running.callback(process.terminate)

        start("master.Master", "--host", "127.0.0.1", "--port", str(port))
        for host in ("127.0.0.2", "127.0.0.3"):
            start("worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(work), master)
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        yield master


@pytest.fixture(scope="session")
def spark(cluster: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.task.maxFailures": "2",
        # A copy of a task that is slower than the others begins soon.
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "4s",
        "spark.executorEnv.PYTHONPATH": str(HERE),
        "spark.executor.memory": "512m",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(cluster).appName("splitpoint")
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
