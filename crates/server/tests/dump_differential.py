#!/usr/bin/env python3
"""Random values of every type go between Debian's redis and this server by DUMP and RESTORE, both ways.

    dump_differential.py [--file] [SECONDS] [SEED]

Both servers make the same values by the same commands. Where a type has an order, what DUMP returns must be equal to the
byte; then each server restores what the other dumped, and must have the same value with the same lifetime.
"""

import atexit
import os
import random
import shutil
import sys
import tempfile
import time

import servers
from resp import Connection

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
SECONDS = float(NUMBERS[0]) if NUMBERS else 10
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)


def text(r):
    kind = r.randrange(12)
    if kind < 3:
        return b"%d" % r.choice([r.randrange(-200, 200), r.randrange(-70_000, 70_000), r.randrange(-2**63, 2**63), 2**63 - 1, -2**63, 2**31, -2**31 - 1])
    if kind < 6:
        return b"element:%d" % r.randrange(3000)
    if kind < 8:
        return b" ".join(r.choice([b"hash", b"table", b"split", b"bucket", b"page"]) for _ in range(r.randrange(30)))
    if kind < 9:
        return r.randbytes(r.randrange(100))
    if kind < 10:
        return bytes([r.randrange(256)]) * r.choice([0, 1, 5, 63, 64, 65, 127, 128, 500, 4095, 4096, 20_000])
    if kind < 11:
        return bytes(r.choice(b"ab") for _ in range(r.choice([3, 20, 21, 22, 24, 40, 300, 9000])))
    return r.choice([b"", b"-0", b"007", b"+1", b"1.5", b"9223372036854775808", b" 1", b"\x00", b"12345678901", b"-1234567890"])


def texts(r, most=600):
    return list(dict.fromkeys(text(r) for _ in range(r.choice([1, 2, 5, 20, 100, most]))))


def score(r):
    return r.choice([b"%d" % r.randrange(-100, 100), b"%.17g" % r.uniform(-1e9, 1e9), b"inf", b"-inf", b"0", b"1e300", b"4503599627370497", b"3.0", b"0.1"])


def stream_id(r, last):
    ms, seq = last
    return (ms, seq + 1) if r.random() < 0.3 else (ms + r.choice([1, 7, 100_000, 10**12]), r.randrange(3))


def make(r, key):
    """Commands that make a value of some type."""
    kind = r.choice(["string", "list", "hash", "set", "intset", "zset", "stream"])
    if kind == "string":
        return kind, [["SET", key, text(r)]]
    if kind == "list":
        return kind, [["RPUSH", key, *[text(r) for _ in range(r.choice([1, 3, 30, 700]))]]]
    if kind == "hash":
        return kind, [["HSET", key, *[word for name in texts(r) for word in (name, text(r))]]]
    if kind == "set":
        return kind, [["SADD", key, *texts(r)]]
    if kind == "intset":
        bits = r.choice([6, 14, 31, 62])
        return kind, [["SADD", key, *{r.randrange(-(2**bits), 2**bits) for _ in range(r.choice([1, 10, 600]))}]]
    if kind == "zset":
        return kind, [["ZADD", key, *[word for name in texts(r, 200) for word in (score(r), name)]]]
    commands, ids, last = [], [], (r.choice([1, 10**12]), 0)
    names = [text(r) for _ in range(r.randrange(1, 4))]
    for _ in range(r.choice([1, 5, 120, 300])):
        last = stream_id(r, last)
        ids.append(b"%d-%d" % last)
        fields = names if r.random() < 0.8 else [text(r) for _ in range(r.randrange(1, 3))]
        commands.append(["XADD", key, ids[-1], *[word for name in fields for word in (name, text(r))]])
    for group in range(r.choice([0, 0, 1, 3])):
        group = b"group:%d" % group
        commands.append(["XGROUP", "CREATE", key, group, r.choice([b"0", b"$", r.choice(ids)])])
        for consumer in range(r.randrange(3)):
            commands.append(["XREADGROUP", "GROUP", group, b"consumer:%d" % consumer, "COUNT", r.randrange(1, 20), "STREAMS", key, ">"])
        commands += [["XACK", key, group, r.choice(ids)] for _ in range(r.randrange(3))]
    if r.random() < 0.3:
        commands += [["XDEL", key, r.choice(ids)] for _ in range(3)]
    return kind, commands


def read(connection, key):
    """The value, independent of the order that a server chooses."""
    kind = connection.call("TYPE", key)
    if kind == "+string":
        return kind, connection.call("GET", key)
    if kind == "+list":
        return kind, connection.call("LRANGE", key, 0, -1)
    if kind == "+set":
        return kind, sorted(connection.call("SMEMBERS", key))
    if kind == "+hash":
        words = connection.call("HGETALL", key)
        return kind, sorted(zip(words[::2], words[1::2]))
    if kind == "+zset":
        return kind, connection.call("ZRANGE", key, 0, -1, "WITHSCORES")
    if kind != "+stream":
        return kind
    info = connection.call("XINFO", "STREAM", key, "FULL", "COUNT", 0)
    info = dict(zip(info[::2], info[1::2]))
    found = [info[name] for name in (b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added", b"recorded-first-entry-id", b"entries")]
    for group in info[b"groups"]:
        group = dict(zip(group[::2], group[1::2]))
        consumers = [dict(zip(one[::2], one[1::2])) for one in group[b"consumers"]]
        found.append([group[name] for name in (b"name", b"last-delivered-id", b"entries-read", b"lag", b"pel-count")])
        # Times come from each server's own commands.
        found.append([[entry[0], entry[1], entry[3]] for entry in group[b"pending"]])
        found.append([[one[b"name"], one[b"pel-count"]] for one in consumers])
    return kind, found


def main():
    redis = servers.redis()
    if redis is None:
        print("SKIPPED: DUMP and RESTORE with redis-server, which is not installed (apt install redis-server)")
        return
    options = []
    if "--file" in sys.argv:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        options = ["--file", os.path.join(folder, "t.spt")]
    mine = servers.splitpoint(*options)
    r = random.Random(SEED)
    both = [Connection(mine.port), Connection(redis.port)]
    total = {}

    def fail(what, *shown):
        print(f"dump: seed {SEED}, value {sum(total.values())}: {what}")
        for line in shown:
            print(f"  {line!r:.2000}")
        sys.exit(1)

    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        kind, commands = make(r, b"k")
        total[kind] = total.get(kind, 0) + 1
        lifetime = r.choice([0, 0, 10**9])
        for connection in both:
            connection.call("FLUSHALL")
            errors = [reply for reply in connection.pipeline(commands) if isinstance(reply, str) and reply.startswith("-")]
            if errors:
                fail("refused", errors[0])
            if lifetime:
                connection.call("PEXPIRE", "k", lifetime)
        values = [read(connection, b"k") for connection in both]
        if values[0] != values[1]:
            fail("the values differ before any dump", *values)
        dumps = [connection.call("DUMP", "k") for connection in both]
        encoding = both[1].call("OBJECT", "ENCODING", "k")
        has_order = encoding not in (b"hashtable", b"stream") and not (kind == "hash" and len(dumps[1]) > 200)
        # Entries of a stream have times in their groups, and removed ones stay in Redis's nodes.
        has_order |= kind == "stream" and all(words[0] == "XADD" for words in commands)
        if has_order and dumps[0] != dumps[1]:
            fail(f"DUMP of a {kind} ({encoding}) differs", *dumps)
        for connection, dump, name in zip(both, reversed(dumps), ("splitpoint restores redis", "redis restores splitpoint")):
            reply = connection.call("RESTORE", "other", lifetime, dump)
            if reply != "+OK":
                fail(f"{name}: {reply}", dump)
            if (value := read(connection, b"other")) != values[0]:
                fail(f"{name}: another value", value, values[0])
            left = connection.call("PTTL", "other")
            if (left > 0) != (lifetime > 0):
                fail(f"{name}: PTTL {left}")
            again = connection.call("DUMP", "other")
            if has_order and again != dump:
                fail(f"{name}: another dump afterwards", again, dump)
            busy = connection.call("RESTORE", "other", 0, dump)
            replaced = connection.call("RESTORE", "other", int(time.time() * 1000) + 10**8, dump, "REPLACE", "ABSTTL", "FREQ", "5")
            if not busy.startswith("-BUSYKEY") or replaced != "+OK" or not 0 < connection.call("PTTL", "other") <= 10**8:
                fail(f"{name}: BUSYKEY, REPLACE or ABSTTL", busy, replaced)
            # Damaged values change nothing.
            damaged = bytearray(dump)
            damaged[r.randrange(len(damaged))] ^= 1 + r.randrange(255)
            reply = connection.call("RESTORE", "other", 0, bytes(damaged), "REPLACE")
            if reply != "-ERR DUMP payload version or checksum are wrong" or read(connection, b"other") != values[0]:
                fail(f"{name}: a damaged dump", reply)
    print(f"DUMP and RESTORE{' in a file' if options else ''}: {sum(total.values())} values, seed {SEED}: {total}")


if __name__ == "__main__":
    main()
