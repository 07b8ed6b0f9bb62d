"""Spark builds a dictionary, three servers serve a third of its shards each, and a Redis Cluster client reads all of it.

    pip install ./python 'pyspark>=4.1' pyarrow redis
    cargo build --release --package splitpoint-cli
    python examples/spark_to_cluster.py --rows 3000000

Here everything runs on one machine. On several, DIRECTORY is a network file system for Spark; each server then needs only
the files of its own shards, and the topology file names the hosts.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from pyspark.sql import SparkSession
from redis.backoff import ConstantBackoff
from redis.client import Redis
from redis.cluster import RedisCluster
from redis.retry import Retry
from splitpoint import spark as splitpoint_spark

SHARDS, NODES, KEYS_AT_ONCE = 12, 3, 10_000


def value_of(number: int) -> bytes:
    return b"%d squared is %d" % (number, number * number)


def build(rows: int, path: str, master: str) -> None:
    """Spark computes the pairs and writes the dictionary, a shard in each task."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(master).appName("spark_to_cluster").config("spark.ui.enabled", "false").getOrCreate()
    try:
        pairs = spark.range(rows).selectExpr("concat('user:', id) AS key", "concat(id, ' squared is ', id * id) AS value")
        splitpoint_spark.write(pairs, path, "overwrite", shards=SHARDS)
    finally:
        spark.stop()


@contextlib.contextmanager
def serving(program: str, path: str, directory: str):
    """Three servers of a third of the slots each; returns the port of one."""
    ports = [free_port() for _ in range(NODES)]
    topology = os.path.join(directory, "topology.toml")
    with open(topology, "w") as file:
        for node, port in enumerate(ports):
            first, end = 16384 * node // NODES, 16384 * (node + 1) // NODES
            file.write(f'[[node]]\naddress = "127.0.0.1:{port}"\nslots = "{first}-{end - 1}"\n\n')
    command = [program, "serve", "--dict", path, "--cluster-topology", topology, "--memcached", "none"]
    servers = [subprocess.Popen([*command, "--resp", f"127.0.0.1:{port}"]) for port in ports]
    try:
        for port in ports:
            Redis(port=port, retry=Retry(ConstantBackoff(0.1), 100), retry_on_error=[ConnectionError]).ping()
        yield ports[0]
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def read_back(port: int, rows: int) -> None:
    """Reads every pair through the cluster's client, which asks each server for the keys that it has."""
    with contextlib.closing(RedisCluster(host="127.0.0.1", port=port)) as client:
        for start in range(0, rows, KEYS_AT_ONCE):
            numbers = range(start, min(start + KEYS_AT_ONCE, rows))
            with client.pipeline() as pipeline:
                for number in numbers:
                    pipeline.get(f"user:{number}")
                assert pipeline.execute() == [value_of(number) for number in numbers]
        assert client.get("user:-1") is None


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=3_000_000)
    arguments.add_argument("--master", default="local-cluster[2,1,1024]", help="two worker processes on this machine")
    built = pathlib.Path(__file__).resolve().parents[1] / "target" / "release" / "splitpoint"
    arguments.add_argument("--splitpoint", default=str(built), help="the program")
    chosen = arguments.parse_args()
    if shutil.which(chosen.splitpoint) is None:
        arguments.error(f"there is no program {chosen.splitpoint}; build it as above, or name it by --splitpoint")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "users.spd")
        start = time.perf_counter()
        build(chosen.rows, path, chosen.master)
        print(f"Spark built a dictionary of {chosen.rows:,} pairs in {time.perf_counter() - start:.0f} s.", flush=True)
        with serving(chosen.splitpoint, path, directory) as port:
            start = time.perf_counter()
            read_back(port, chosen.rows)
            print(f"{NODES} servers gave all of them back in {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
