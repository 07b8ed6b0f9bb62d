#!/usr/bin/env python3
"""MIGRATE: keys of every type go to a real Redis and come back; a key that changes while it is sent is not lost; other clients do
not wait for the network.

    migrate.py [KEYS] [SEED] [--file]
"""

import atexit
import os
import random
import shutil
import socket
import sys
import tempfile

import servers
from dump_differential import make, read
from resp import Connection

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
KEYS = int(NUMBERS[0]) if NUMBERS else 100
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)
FILE = "--file" in sys.argv


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"migrate: seed {SEED}: {what}: {found!r:.1500}, not {wanted!r:.1500}")


class Target:
    """A server whose answers the test chooses."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def accept(self):
        self.stream, _ = self.listener.accept()
        self.file = self.stream.makefile("rb")

    def request(self):
        count = int(self.file.readline()[1:])
        words = []
        for _ in range(count):
            length = int(self.file.readline()[1:])
            words.append(self.file.read(length + 2)[:-2])
        return words

    def answer(self, line):
        self.stream.sendall(line + b"\r\n")


def with_a_real_one(mine, options):
    redis = servers.redis("--requirepass", "secret")
    if redis is None:
        print("SKIPPED: MIGRATE to redis-server, which is not installed (apt install redis-server)")
        return
    theirs = Connection(redis.port)
    theirs.call("AUTH", "secret")
    theirs.call("SELECT", 3)
    to_redis = ["MIGRATE", "127.0.0.1", redis.port]
    r, values, lives = random.Random(SEED), {}, set()
    for number in range(KEYS):
        key = r.choice([b"key:%d", b"\x00sp\xff%d", b"\xffkey %d"]) % number
        mine.pipeline(make(r, key)[1])
        if r.random() < 0.3:
            mine.call("PEXPIRE", key, 10**9)
            lives.add(key)
        values[key] = read(mine, key)
    keys = list(values)
    refused = mine.call(*to_redis, keys[0], 3, 5000)
    expect("without a password", refused, "-ERR Target instance replied with error: NOAUTH Authentication required.")
    refused = mine.call(*to_redis, keys[0], 3, 5000, "AUTH", "wrong")
    expect("a wrong password", refused.startswith("-ERR Target instance replied with error: WRONGPASS"), True)
    expect("nothing was moved", (mine.call("DBSIZE"), theirs.call("DBSIZE")), (KEYS, 0))
    expect("COPY", mine.call(*to_redis, keys[0], 3, 5000, "copy", "auth2", "default", "secret"), "+OK")
    expect("a key that is there", mine.call(*to_redis, keys[0], 3, 5000, "AUTH", "secret"),
           "-ERR Target instance replied with error: BUSYKEY Target key name already exists.")
    moved = mine.call(*to_redis, "", 3, 5000, "REPLACE", "AUTH", "secret", "KEYS", "absent", *keys)
    expect("all keys", (moved, mine.call("DBSIZE"), theirs.call("DBSIZE")), ("+OK", 0, KEYS))
    expect("none is left", mine.call(*to_redis, "", 3, 5000, "AUTH", "secret", "KEYS", *keys), "+NOKEY")
    for key in keys:
        expect(f"{key!r} there", read(theirs, key), values[key])
        expect(f"the lifetime of {key!r}", theirs.call("PTTL", key) > 0, key in lives)
    server = servers.splitpoint(*options)
    back = theirs.call("MIGRATE", "127.0.0.1", server.port, "", 0, 5000, "KEYS", *keys)
    ours = Connection(server.port)
    expect("back", (back, theirs.call("DBSIZE"), ours.call("DBSIZE")), ("+OK", 0, KEYS))
    for key in keys:
        expect(f"{key!r} back", read(ours, key), values[key])
        expect(f"the lifetime of {key!r} back", ours.call("PTTL", key) > 0, key in lives)
    print(f"MIGRATE{' of a file' if FILE else ''}: {KEYS} keys to Redis and back (seed {SEED})")


def with_changes(server, mine):
    other, target = Connection(server.port), Target()
    mine.call("SET", "k", "old")
    mine.send(["MIGRATE", "127.0.0.1", target.port, "k", 0, 60_000])
    target.accept()
    expect("first", target.request(), [b"SELECT", b"0"])
    expect("another one meanwhile", other.call("MIGRATE", "127.0.0.1", target.port, "k", 0, 1),
           "-TRYAGAIN another client's MIGRATE is running")
    target.answer(b"+OK")
    expect("then", target.request()[:3], [b"RESTORE", b"k", b"0"])
    # Other clients are served, and change the key.
    expect("a write meanwhile", other.call("APPEND", "k", " and new"), 11)
    target.answer(b"+OK")
    again = target.request()
    expect("again", (again[:3], again[4:]), ([b"RESTORE", b"k", b"0"], [b"REPLACE"]))
    expect("its payload", b"old and new" in again[3], True)
    target.answer(b"+OK")
    expect("moved", (mine.reply(), mine.call("EXISTS", "k")), ("+OK", 0))
    # Consumer groups are part of a stream, although no watch sees them change.
    mine.call("XADD", "stream", "1-1", "field", "value")
    mine.call("XGROUP", "CREATE", "stream", "first group", "0")
    mine.send(["MIGRATE", "127.0.0.1", target.port, "stream", 0, 60_000])
    target.accept()
    target.request()
    target.answer(b"+OK")
    group = [b"second group"]
    for change in (
        ("XGROUP", "CREATE", "stream", *group, "0"),
        ("XREADGROUP", "GROUP", *group, "consumer", "STREAMS", "stream", ">"),
        ("XACK", "stream", *group, "1-1"),
        ("XSETID", "stream", "2-2"),
    ):
        expect(f"sent before {change[0]}", target.request()[:3], [b"RESTORE", b"stream", b"0"])
        other.call(*change)
        target.answer(b"+OK")
    again = target.request()
    expect("with all changes", (again[4:], group[0] in again[3]), ([b"REPLACE"], True))
    target.answer(b"+OK")
    expect("the stream moved", (mine.reply(), mine.call("EXISTS", "stream")), ("+OK", 0))
    # A target that disappears, one that answers nonsense, and no target: the key stays.
    mine.call("SET", "k", "v")
    for answer in (None, b"nonsense", b":1", b"-LOADING later"):
        mine.send(["MIGRATE", "127.0.0.1", target.port, "k", 0, 60_000])
        target.accept()
        target.request()
        if answer:
            target.answer(answer)
        target.file.close()
        target.stream.close()
        expected = "-ERR Target instance replied with error: LOADING later" if answer and answer[:1] == b"-" else (
            "-IOERR error or timeout reading from target instance")
        expect(f"after {answer}", (mine.reply(), mine.call("GET", "k")), (expected, b"v"))
    target.listener.close()
    expect("none there", mine.call("MIGRATE", "127.0.0.1", target.port, "k", 0, 1000),
           "-IOERR error or timeout connecting to the client")
    for words, error in (
        (["127.0.0.1", "x", "k", 0, 10], "-ERR Invalid TCP port specified"),
        (["127.0.0.1", 1, "k", "x", 10], "-ERR value is not an integer or out of range"),
        (["127.0.0.1", 1, "k", 0, "x"], "-ERR value is not an integer or out of range"),
        (["127.0.0.1", 1, "k", 0, 10, "KEYS", "a"],
         "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"),
        (["127.0.0.1", 1, "k", 0, 10, "AUTH"], "-ERR syntax error"),
        (["127.0.0.1", 1, "k", 0, 10, "AUTH2", "a"], "-ERR syntax error"),
    ):
        expect(words, mine.call("MIGRATE", *words), error)
    expect("absent", mine.call("MIGRATE", "127.0.0.1", 1, "none", 0, 10), "+NOKEY")
    # To itself: storing it there changes the key, so the key stays.
    itself = mine.call("MIGRATE", "127.0.0.1", server.port, "k", 0, 5000, "REPLACE")
    expect("to itself", (itself.startswith("-ERR a key changes faster"), mine.call("GET", "k")), (True, b"v"))
    expect("to another database", mine.call("MIGRATE", "127.0.0.1", server.port, "k", 5, 5000), "+OK")
    mine.call("SELECT", 5)
    expect("there", mine.call("GET", "k"), b"v")
    mine.call("MULTI")
    mine.call("MIGRATE", "127.0.0.1", server.port, "k", 0, 5000)
    expect("within MULTI", mine.call("EXEC"), ["-ERR MIGRATE isn't allowed for DENY BLOCKING client"])
    print("MIGRATE: changes meanwhile, targets that fail, and itself")


def main():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = lambda name: ["--file", os.path.join(folder, name)] if FILE else []
    server = servers.splitpoint(*file("a.spt"))
    mine = Connection(server.port)
    with_a_real_one(mine, file("b.spt"))
    with_changes(server, mine)


main()
