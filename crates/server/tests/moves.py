#!/usr/bin/env python3
"""A Redis with keys of every type moves into a table file and out again: through its RDB file, through its port, through our
server, by TLS, and as JSON lines. After each way both sides have the same keys, values and lifetimes.

    moves.py [KEYS] [SEED]
"""

import atexit
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import servers
from dump_differential import make, read
from resp import Connection

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
KEYS = int(NUMBERS[0]) if NUMBERS else 300
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)
PROGRAM = os.environ.get("SPLITPOINT", f"{servers.BUILT}/debug/splitpoint")


def run(*words, output=None):
    done = subprocess.run([PROGRAM, *map(str, words)], stdout=output or subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"moves: seed {SEED}: {' '.join(map(str, words))}: {done.stderr.decode()}")


def contents(connection, databases):
    """All keys with their values, and when each expires, within seconds."""
    found = {}
    for database in databases:
        connection.call("SELECT", database)
        for key in connection.call("KEYS", "*"):
            left = connection.call("PTTL", key)
            found[database, key] = read(connection, key), 0 if left < 0 else round((time.time() * 1000 + left) / 100_000)
    connection.call("SELECT", 0)
    return found


def compare(what, mine, theirs):
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    if keys:
        key = keys[0]
        sys.exit(f"moves: seed {SEED}: {what}: {len(keys)} keys differ, as {key!r}:\n {mine.get(key)!r:.1500}\n {theirs.get(key)!r:.1500}")


def served(path, databases):
    server = servers.splitpoint("--file", path)
    found = contents(Connection(server.port), databases)
    server.stop()
    return found


def main():
    debug = ["--enable-debug-command", "yes"]
    redis = servers.redis(*debug)
    if redis is None:
        print("SKIPPED: moves from and to redis-server, which is not installed (apt install redis-server)")
        return
    r, connection = random.Random(SEED), Connection(redis.port)
    for number in range(KEYS):
        connection.call("SELECT", r.choice([0, 0, 0, 3, 15]))
        key = r.choice([b"key:%d", b"\x00sp\xff%d", b"\xffkey %d"]) % number
        connection.pipeline(make(r, key)[1])
        if r.random() < 0.3:
            connection.call("PEXPIREAT", key, int(time.time()) // 100 * 100_000 + 10**8 * r.randrange(1, 100))
        if r.random() < 0.05:
            connection.call("PEXPIRE", key, 1)
    time.sleep(0.01)
    all_databases = [0, 3, 15]
    theirs = contents(connection, all_databases)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = lambda name: os.path.join(folder, name)
    # Through the RDB file, of all databases.
    connection.call("SAVE")
    saved = os.path.join(connection.call("CONFIG", "GET", "dir")[1].decode(), "dump.rdb")
    run("load", path("a.spt"), saved)
    run("diff", saved, path("a.spt"))
    compare("load dump.rdb", served(path("a.spt"), all_databases), theirs)
    # Back: redis-server starts from our file.
    with open(path("ours.rdb"), "wb") as file:
        run("dump", path("a.spt"), "--format", "rdb", output=file)
    back = servers.redis("--dir", folder, "--dbfilename", "ours.rdb", *debug)
    back_connection = Connection(back.port)
    compare("dump --format rdb", contents(back_connection, all_databases), theirs)
    digests = [one.call("DEBUG", "DIGEST") for one in (back_connection, connection)]
    if digests[0] != digests[1]:
        sys.exit(f"moves: seed {SEED}: DEBUG DIGEST: {digests}")
    # Through the port, one database at a time.
    for database in all_databases:
        run("load", path(f"b{database}.spt"), f"redis://127.0.0.1:{redis.port}/{database}")
        run("diff", f"redis://127.0.0.1:{redis.port}/{database}", path(f"b{database}.spt"))
        mine = served(path(f"b{database}.spt"), [0])
        compare("load redis://", mine, {(0, key[1]): value for key, value in theirs.items() if key[0] == database})
    # From our own server, by TLS too.
    made, secure = servers.certificate(folder), servers.free_port()
    options = ["--resp-tls", f"127.0.0.1:{secure}", "--tls-cert", made[0], "--tls-key", made[1]] if made else []
    ours = servers.splitpoint("--file", path("a.spt"), *options)
    if made:
        os.environ["SSL_CERT_FILE"] = made[0]
        run("diff", f"rediss://127.0.0.1:{secure}/3", path("b3.spt"))
    else:
        print("SKIPPED: moves by TLS, as there is no openssl to make a certificate (apt install openssl)")
    for database in all_databases:
        run("load", path(f"d{database}.spt"), f"redis://127.0.0.1:{ours.port}/{database}")
    ours.stop()
    for database in all_databases:
        mine = served(path(f"d{database}.spt"), [0])
        compare("load from splitpoint serve", mine, {(0, key[1]): value for key, value in theirs.items() if key[0] == database})
    # As JSON lines, of all databases.
    with open(path("a.jsonl"), "wb") as file:
        run("dump", path("a.spt"), "--format", "jsonl", output=file)
    run("load", path("c.spt"), path("a.jsonl"))
    compare("dump --format jsonl", served(path("c.spt"), all_databases), theirs)
    # Again, over the existing keys: the same result. With --duplicates first, existing keys are kept.
    run("load", path("c.spt"), saved)
    compare("load again", served(path("c.spt"), all_databases), theirs)
    run("load", path("c.spt"), saved, "--duplicates", "first")
    compare("load --duplicates first", served(path("c.spt"), all_databases), theirs)
    print(f"moves: {len(theirs)} keys of every type through RDB, two servers and JSON lines, both ways (seed {SEED})")


main()
