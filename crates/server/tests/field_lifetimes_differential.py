#!/usr/bin/env python3
"""The same random commands on hashes whose fields have lifetimes to redis-server and to this server: replies have to be equal.

    field_lifetimes_differential.py [--file] [SECONDS] [SEED]

REDIS names a redis-server of version 8 or later; without one that knows HSETEX nothing is compared. Redis counts fields
that have expired until it removes them, and this server does not, so after short lifetimes the test waits until both have
as many fields.
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
KEYS = [b"a", b"b", b"c"]
UNORDERED = {"HKEYS": 1, "HVALS": 1, "HGETALL": 2}
# In these replies, times differ by the delay between the servers.
ABOUT = {"HTTL": 1, "HPTTL": 2000}
LONG = 10**5


def field(r):
    return r.choice([b"%d" % r.randrange(8), b"field:%d" % r.randrange(300), b"", b"x" * 64, b"y" * 70, b"\x80\x00" * 5])


def fields(r):
    chosen = [field(r) for _ in range(r.choice([1, 1, 1, 2, 3, 40]))]
    count = len(chosen) if r.randrange(12) else r.choice([0, -1, len(chosen) + 1, "x", 2**63])
    return [r.choice(["FIELDS", "fields"]) if r.randrange(40) else "FIELD", count, *chosen]


def pairs(r):
    chosen = [(field(r), r.choice([b"1", b"value", b"", b"z" * 100])) for _ in range(r.choice([1, 1, 2, 5, 100]))]
    return [word for pair in chosen for word in pair]


def fields_and_values(r):
    words = pairs(r)
    return ["FIELDS", len(words) // 2 if r.randrange(12) else r.choice([0, 1, "x"]), *words]


def number(r, unit, now):
    """A lifetime in this unit: expired, long, or not a number."""
    absolute, per_second = unit.endswith("AT"), 1000 if unit.startswith("P") else 1
    if r.randrange(12) == 0:
        return r.choice([-1, "x", "", 2**63 - 1, 2**46, 2**46 // 1000, -(2**63), "1.5"])
    seconds = r.choice([0, LONG, LONG, LONG, 2 * LONG, 3 * LONG])
    return (seconds + (now if absolute and seconds else 0)) * per_second


def expiry(r, now, more):
    unit = r.choice(["EX", "PX", "EXAT", "PXAT", more, ""])
    if unit in ("", more):
        return [unit] if unit else []
    return [unit, number(r, unit[0].replace("E", "") + ("AT" if unit.endswith("AT") else ""), now)]


def command(r, now):
    k = r.choice(KEYS)
    unit = r.choice(["", "P", "AT", "PAT"])
    name = {"": "HEXPIRE", "P": "HPEXPIRE", "AT": "HEXPIREAT", "PAT": "HPEXPIREAT"}[unit]
    makers = [
        lambda: [name, k, number(r, unit, now), *r.choice([[], [], ["NX"], ["XX"], ["GT"], ["LT"], ["xx"], ["NX", "XX"]]), *fields(r)],
        lambda: [name, k, number(r, unit, now), *fields(r)],
        lambda: [name, k, number(r, unit, now), *fields(r)],
        lambda: [r.choice(["HTTL", "HPTTL"]), k, *fields(r)],
        lambda: ["HPERSIST", k, *fields(r)],
        lambda: ["HGETDEL", k, *fields(r)],
        lambda: ["HGETEX", k, *expiry(r, now, "PERSIST"), *fields(r)],
        lambda: ["HSETEX", k, *r.choice([[], [], ["FNX"], ["FXX"], ["FNX", "FXX"]]), *expiry(r, now, "KEEPTTL"), *fields_and_values(r)],
        lambda: ["HSET", k, *pairs(r)],
        lambda: ["HSET", k, *pairs(r)],
        lambda: ["HSETNX", k, field(r), b"new"],
        lambda: ["HDEL", k, *[field(r) for _ in range(r.choice([1, 3, 60]))]],
        lambda: ["HINCRBY", k, field(r), 1],
        lambda: ["HINCRBYFLOAT", k, field(r), "0.5"],
        lambda: [r.choice(["HGET", "HEXISTS", "HSTRLEN"]), k, field(r)],
        lambda: ["HMGET", k, field(r), field(r)],
        lambda: [r.choice(["HLEN", "HKEYS", "HVALS", "HGETALL", "EXISTS", "TYPE"]), k],
        lambda: ["COPY", k, r.choice(KEYS), "REPLACE"],
        lambda: ["RENAME", k, r.choice(KEYS)],
        lambda: ["DEL", k] if r.randrange(10) == 0 else ["SET", k, b"string"] if r.randrange(10) == 0 else ["HLEN", k],
        lambda: ["DUMPED", k, r.choice(KEYS)],
        lambda: ["SORT", "list", "BY", b"*->" + field(r), "GET", b"*->" + field(r), "ALPHA"],
        lambda: ["EVAL", "redis.call('HPEXPIRE', KEYS[1], 100000000, 'FIELDS', 1, ARGV[1]); return redis.call('HLEN', KEYS[1])", 1, k, field(r)],
        lambda: ["TRANSACTION", k, field(r), field(r)],
        lambda: ["SHORT", k, field(r), field(r)],
    ]
    return r.choice(makers)()


def about(name, reply):
    return [answer if answer < 0 else -(-answer // ABOUT[name]) for answer in reply] if isinstance(reply, list) else reply


def are_equal(name, ours, theirs):
    if isinstance(ours, str) and ours.startswith("-") and isinstance(theirs, str):
        return ours == theirs
    if name in ABOUT and isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(
            a == b or min(a, b) >= 0 and abs(a - b) <= 5000 // (1 if name == "HPTTL" else 1000) for a, b in zip(ours, theirs)
        )
    if name in UNORDERED and isinstance(ours, list) and isinstance(theirs, list):
        step = UNORDERED[name]
        tuples = [sorted(tuple(reply[at : at + step]) for at in range(0, len(reply), step)) for reply in (ours, theirs)]
        return tuples[0] == tuples[1]
    return ours == theirs


def ask(words, us, them):
    """The replies of both servers to what may be several commands."""
    name = words[0]
    if name == "DUMPED":
        # Each server restores what the other dumped.
        dumps = [server.call("DUMP", words[1]) for server in (them, us)]
        if None in dumps:
            return dumps
        return [server.call("RESTORE", words[2], 0, dump, "REPLACE") for server, dump in zip((us, them), dumps)]
    if name == "TRANSACTION":
        return [
            server.pipeline(
                [["MULTI"], ["HPEXPIRE", words[1], 10**8, "FIELDS", 2, *words[2:]], ["HPERSIST", words[1], "FIELDS", 1, words[2]],
                 ["HEXPIRE", words[1], 0, "FIELDS", 1, words[3]], ["HLEN", words[1]], ["EXEC"]]
            )
            for server in (us, them)
        ]
    if name == "SHORT":
        replies = [server.call("HPEXPIRE", words[1], 1, "FIELDS", 2, *words[2:]) for server in (us, them)]
        if isinstance(replies[1], list):
            time.sleep(0.003)
            assert us.call("HMGET", words[1], *words[2:]) == [None, None], words
            servers.eventually("the same fields", lambda: us.call("HLEN", words[1]) == them.call("HLEN", words[1]))
            servers.eventually("the same keys", lambda: us.call("EXISTS", words[1]) == them.call("EXISTS", words[1]))
        return replies
    return [server.call(*words) for server in (us, them)]


def compare(us, them, words):
    ours, theirs = ask(words, us, them)
    if not are_equal(words[0], ours, theirs):
        sys.exit(f"seed {SEED}: {words}\n  redis      {theirs!r}\n  splitpoint {ours!r}")


def main():
    program = os.environ.get("REDIS") or shutil.which("redis-server")
    if not program:
        return print("SKIPPED: lifetimes of fields beside Redis, as there is no redis-server")
    port = servers.free_port()
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command_line = [program, "--port", str(port), "--save", "", "--bind", "127.0.0.1", "--dir", folder]
    redis = servers.Server(command_line, port, "redis-server")
    them = Connection(redis.port)
    if them.call("COMMAND", "INFO", "hsetex") in ([None], []):
        return print("SKIPPED: lifetimes of fields beside Redis, as this redis-server is older than 8.0")
    options = ["--file", os.path.join(folder, "table")] if "--file" in sys.argv else []
    us = Connection(servers.splitpoint(*options).port)
    for server in (us, them):
        server.call("RPUSH", "list", *KEYS)
    r, asked, end = random.Random(SEED), 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        compare(us, them, command(r, int(time.time())))
        asked += 1
        if asked % 50 == 0:
            for k in KEYS:
                for words in (["TYPE", k], ["HGETALL", k]):
                    compare(us, them, words)
                names = them.call("HKEYS", k)
                if isinstance(names, list) and names:
                    compare(us, them, ["HPTTL", k, "FIELDS", len(names), *sorted(names)])
    print(f"lifetimes of fields: {asked} random commands answered as by Redis, seed {SEED}")


main()
