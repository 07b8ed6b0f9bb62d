#!/usr/bin/env python3
"""Cluster clients as applications use them: redis-py's RedisCluster, Jedis's JedisCluster, redis-benchmark --cluster."""

import os
import shutil
import subprocess
import sys
import threading
import warnings

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

import cluster
import servers
from cluster import eventually, node, place, serve, topology

# An option of redis-py 5 that later ones deprecate.
warnings.simplefilter("ignore", DeprecationWarning)
WORDS = cluster.words()
LINE = {word: str(number).encode() for number, word in enumerate(WORDS, 1)}
folder = cluster.build("clients.spd", 6)
ports = [servers.free_port() for _ in range(4)]
file = topology("clients.toml", node(ports[0], "shards = [0, 1]") + node(ports[1], "shards = [2, 3]", 'name = "second"')
                + node(ports[2], "shards = [4, 5]") + node(ports[3], 'replica-of = "second"'))
password = place("password")
with open(password, "w") as secret:
    secret.write("open sesame\n")


def start(port):
    return serve(port, "--dict", folder, "--cluster-topology", file, "--password-file", password)


def connect(protocol=2, **options):
    options = {"password": "open sesame", "socket_timeout": 20, **options}
    return RedisCluster(host="127.0.0.1", port=ports[0], protocol=protocol, **options)


def reads(protocol):
    r = connect(protocol)
    assert sorted(n.port for n in r.get_primaries()) == sorted(ports[:3])
    assert [n.port for n in r.get_replicas()] == [ports[3]]
    for word in WORDS[::173]:
        assert r.get(word) == LINE[word]
    assert r.get("no such word") is None and r.exists("hello", "world", "nope!") == 2
    some = WORDS[:2000]
    assert r.mget_nonatomic(some) == [LINE[word] for word in some]
    with r.pipeline() as pipe:
        for word in some:
            pipe.get(word)
        assert pipe.execute() == [LINE[word] for word in some]
    found = list(r.scan_iter(count=1000))
    assert len(found) == len(WORDS) and set(found) == set(LINE)
    assert len(list(r.scan_iter(match="zo*", count=5000))) == sum(word.startswith(b"zo") for word in WORDS)
    assert sum(r.dbsize(target_nodes=primary) for primary in r.get_primaries()) == len(WORDS)
    assert r.randomkey() in LINE and r.strlen("hello") == len(LINE[b"hello"])
    assert r.cluster_keyslot("hello") == 866 and r.memory_usage("hello") > 0 and r.ttl("hello") == -1
    assert r.object("encoding", "hello") in (b"int", "int")
    for write in (lambda: r.set("hello", 1), lambda: r.append("a", "b"), lambda: r.delete("hello")):
        try:
            write()
            raise SystemExit("a write was accepted")
        except redis.ReadOnlyError:
            pass
    r.close()


def a_killed_node():
    """Keys of other nodes stay, and a replica answers; the killed node's come back with it."""
    r = connect(retry=Retry(NoBackoff(), 1))
    of_second = [word for word in WORDS[:3000] if 5461 <= r.keyslot(word) <= 10921]
    others = [word for word in WORDS[:3000] if word not in set(of_second)]
    nodes[1].kill()
    assert all(r.get(word) == LINE[word] for word in others[:200])
    try:
        r.get(of_second[0])
        raise SystemExit("a killed node answered")
    except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterError, redis.exceptions.ClusterDownError) as error:
        print(f"  of a killed node: {type(error).__name__}")
    replica = redis.Redis(port=ports[3], password="open sesame")
    assert all(replica.get(word) == LINE[word] for word in of_second[:200])
    nodes[1] = start(ports[1])
    eventually("the node is back", lambda: r.get(of_second[0]) == LINE[of_second[0]])
    r.close()
    replicated = connect(read_from_replicas=True)
    assert all(replicated.get(word) == LINE[word] for word in of_second[:200])
    assert replica.info("commandstats")["cmdstat_get"]["calls"] > 250
    replicated.close()


def a_new_generation():
    """Clients read on through updates on all nodes, and see the new values."""
    stop, failures, counts = threading.Event(), [], [0, 0]

    def read(number):
        r = connect(2 + number)
        while not stop.is_set():
            words = WORDS[counts[number] % 1000::4001]
            values = r.mget_nonatomic(words) if number else [r.get(word) for word in words]
            failures.extend(word for word, value in zip(words, values) if value not in (LINE[word], b"new"))
            counts[number] += 1
        r.close()

    readers = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(2)]
    [reader.start() for reader in readers]
    with open(place("all.tsv"), "wb") as batch:
        batch.writelines(word + b"\tnew\n" for word in WORDS[::3])
    cluster.run("dict", "update", folder, place("all.tsv"), folder)
    r = connect()
    eventually("the new values", lambda: all(r.get(word) == b"new" for word in WORDS[:3000:3]))
    stop.set()
    [reader.join() for reader in readers]
    assert not failures and min(counts) > 3, (failures[:5], counts)
    cluster.run("dict", "build", "--format", "lines", "--number", "--shards", 6, cluster.WORDS, folder)
    eventually("the old values", lambda: all(r.get(word) == LINE[word] for word in WORDS[:3000]))
    r.close()


def jedis():
    java, maven = shutil.which("java"), shutil.which("mvn")
    if not (java and maven):
        return "SKIPPED: Jedis, as there is no java or no mvn (apt install openjdk-17-jdk-headless maven)"
    here = os.path.dirname(os.path.abspath(__file__))
    paths = os.path.abspath(f"{servers.BUILT}/jedis-classpath")
    if not os.path.exists(paths):
        command = [maven, "-q", "-f", f"{here}/jedis/pom.xml", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
        made = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE)
        if made.returncode != 0:
            return "SKIPPED: Jedis, which Maven could not fetch: " + made.stdout.strip().splitlines()[0]
    with open(paths) as text:
        classes = text.read().strip()
    command = [java, "-cp", classes, f"{here}/jedis/ClusterCheck.java", str(plain[0].port), cluster.WORDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def benchmark():
    if not shutil.which("redis-benchmark"):
        return "SKIPPED: redis-benchmark --cluster, which is not installed"
    command = ["redis-benchmark", "--cluster", "-p", plain[1].port, "-t", "get", "-n", 50000, "-P", 16, "-q", "--csv"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=servers.PATIENCE)
    assert done.returncode == 0 and '"GET"' in done.stdout and "rror" not in done.stdout, done.stdout + done.stderr
    return "redis-benchmark --cluster: 50000 GETs"


nodes = [start(port) for port in ports]
for version in (2, 3):
    reads(version)
a_killed_node()
a_new_generation()
for server in nodes:
    server.stop()
# Without a password, for clients that are given none.
ports = [servers.free_port() for _ in range(3)]
file = topology("plain.toml", "".join(node(port, f"shards = [{2 * n}, {2 * n + 1}]") for n, port in enumerate(ports)))
plain = [serve(port, "--dict", folder, "--cluster-topology", file) for port in ports]
print(jedis())
print(benchmark())
for server in plain:
    server.stop()
print(f"cluster client: redis-py {redis.__version__}, RESP2 and RESP3, on three nodes and a replica")
sys.exit(0)
