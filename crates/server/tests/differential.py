#!/usr/bin/env python3
"""The same random commands to Debian's redis and to this server: replies have to be equal, byte for byte.

    differential.py [--file] [--survey] [SECONDS] [SEED]

--survey continues after a difference, and shows each kind of them once.

Two connections to each server, RESP2 and RESP3, a few keys, values that are often numbers, pipelines of random length,
transactions, subscriptions; and commands with any arguments in any number.
Where the two differ by design, the command is not generated, or the reply is compared as docs/server.md says.
"""

import atexit
import os
import random
import re
import shutil
import sys
import tempfile
import time

import servers
from resp import Connection

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
SECONDS = float(NUMBERS[0]) if NUMBERS else 10
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)
KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"", b"\x00sp\xffm", b"\r\n"]
LONG = 10**6
# What redis answered to DUMP.
DUMPS = [b"", b"nonsense that is long enough"]


def key(r):
    return r.choice(KEYS)


def value(r):
    kind = r.randrange(10)
    if kind < 4:
        return str(r.choice([0, 1, -1, 10, 12345, 2**63 - 1, -(2**63), 2**63, -5])).encode()
    if kind < 5:
        return r.choice([b"1.5", b"-0.25", b"3.0", b"abc", b" 1", b"01", b"+1", b"1e2", b"-0", b"", b"nan", b"inf"])
    if kind < 9:
        return bytes(r.randrange(256) for _ in range(r.randrange(40)))
    return bytes([r.randrange(256)]) * r.choice([44, 45, 63, 64, 1000, 5000])


def number(r):
    return r.choice([b"0", b"1", b"-1", b"5", b"100", b"-100", b"9223372036854775807", b"-9223372036854775808", b"x", b"", b"1.5"])


def span(r, scale=1):
    """A time to live: long, invalid, or expired."""
    # Far apart, so that the same milliseconds of two clocks decide nothing.
    long = str(r.randrange(1, 10_000) * LONG * scale)
    return r.choice([long, long, long, "0", "-1", "x", "9223372036854775807"])


def at(r, scale, past=True):
    return str((int(time.time()) // 1000 * 1000 + r.choice([LONG, 2 * LONG, -LONG if past else LONG])) * scale)


def lifetime(r, past=False):
    return r.choice(
        [("EX", span(r)), ("PX", span(r, 1000)), ("EXAT", at(r, 1, past)), ("PXAT", at(r, 1000, past)), ("KEEPTTL",), ("ex",), ("EX", "10", "PX", "10")]
    )


def set_command(r):
    words = ["SET", key(r), value(r)]
    for option in r.sample([("NX",), ("xx",), ("GET",), lifetime(r), ("WHAT",)], r.choice([0, 0, 0, 1, 1, 2, 3])):
        words += option
    return words


# Commands that may have any arguments. Not INCRBYFLOAT (see above), DUMP and RESTORE, and those whose replies are the
# server's own. Names of no command are among them.
ANY = """GET SET SETNX SETEX PSETEX GETSET GETEX GETDEL MGET MSET MSETNX APPEND STRLEN GETRANGE SUBSTR SETRANGE INCR DECR
INCRBY DECRBY DEL UNLINK EXISTS TYPE TOUCH COPY RENAME RENAMENX EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL EXPIRETIME
PEXPIRETIME PERSIST PING ECHO SELECT MULTI EXEC DISCARD WATCH UNWATCH DBSIZE RANDOMKEY KEYS PUBLISH NOSUCH GE SETT""".split()
OPTIONS = """NX XX GT LT GET EX PX EXAT PXAT KEEPTTL PERSIST REPLACE DB ASYNC SYNC MATCH COUNT TYPE string MAXLEN nx ex
get replace""".split()


def anything(r):
    """A command with arguments that may mean nothing."""
    name = r.choice(ANY)
    arguments = [
        r.choice([lambda: key(r), lambda: key(r), lambda: value(r), lambda: number(r), lambda: r.choice(OPTIONS)])()
        for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6]))
    ]
    # This server's own; and a random one of the keys.
    if name == "APPEND" and len(arguments) == 4:
        arguments.pop()
    if name == "RANDOMKEY" and not arguments:
        arguments.append(b"x")
    # Short times to live would expire at different times. (An offset of SETRANGE stays: a long value is slow to
    # arrive.)
    if name != "SETRANGE" and any(isinstance(word, str) and word.upper() in ("EX", "PX", "EXAT", "PXAT") for word in arguments):
        arguments = [b"100000000" if word in (b"1", b"5", b"100") else word for word in arguments]
    if name in ("SETEX", "PSETEX", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT") and len(arguments) > 1:
        arguments[1] = r.choice([b"x", b"-1", b"0", b"", b"100000000" if "AT" not in name else b"9999999999999"])
    return [name, *arguments]


def random_case(r, word):
    return "".join(r.choice([c.upper(), c.lower()]) for c in word)


def command(r):
    k = key
    plain = [
        lambda: ["PFADD", r.choice([b"hll", b"hll2", k(r)]), *(str(r.randrange(10**6)) for _ in range(r.choice([0, 1, 2, 50, 600])))],
        lambda: ["PFCOUNT", *(r.choice([b"hll", b"hll2", b"hll3", k(r)]) for _ in range(r.choice([1, 1, 2, 3])))],
        lambda: ["PFMERGE", r.choice([b"hll3", k(r)]), *(r.choice([b"hll", b"hll2", k(r)]) for _ in range(r.randrange(3)))],
        lambda: ["GET", r.choice([b"hll", b"hll2", b"hll3"])],
        lambda: ["DEL", r.choice([b"hll", b"hll2", b"hll3"])] if r.random() < 0.2 else ["PING"],
        lambda: ["GET", k(r)],
        lambda: set_command(r),
        lambda: ["SET", k(r), value(r)],
        lambda: ["APPEND", k(r), value(r)],
        lambda: ["SETNX", k(r), value(r)],
        lambda: ["SETEX", k(r), span(r), value(r)],
        lambda: ["PSETEX", k(r), span(r, 1000), value(r)],
        lambda: ["GETSET", k(r), value(r)],
        lambda: ["GETDEL", k(r)],
        lambda: ["GETEX", k(r), *r.choice([(), ("PERSIST",), lifetime(r, past=True), ("PERSIST", "EX", "5")])],
        lambda: ["MGET", *(k(r) for _ in range(r.randrange(1, 6)))],
        lambda: ["MSET", *(f(r) for _ in range(r.randrange(1, 4)) for f in (k, value))],
        lambda: ["MSETNX", *(f(r) for _ in range(r.randrange(1, 3)) for f in (k, value))],
        lambda: ["MSET", k(r), value(r), k(r)],
        lambda: ["STRLEN", k(r)],
        lambda: [r.choice(["GETRANGE", "SUBSTR"]), k(r), number(r), number(r)],
        lambda: ["SETRANGE", k(r), r.choice([b"0", b"1", b"5", b"100", b"-1", b"x", b"600000000"]), value(r)],
        lambda: [r.choice(["INCR", "DECR"]), k(r)],
        lambda: [r.choice(["INCRBY", "DECRBY"]), k(r), number(r)],
        # Redis adds in 80 bits, this server exactly: numbers on which both agree, in keys that have no others.
        lambda: ["INCRBYFLOAT", r.choice([b"float", b"float2"]), r.choice([b"0.5", b"-1.25", b"3", b"1e2", b"x", b"", b"inf", b"nan", b" 1", b"2.0"])],
        lambda: [r.choice(["DEL", "UNLINK", "EXISTS", "TOUCH"]), *(k(r) for _ in range(r.randrange(1, 4)))],
        lambda: ["TYPE", k(r)],
        lambda: ["MOVE", k(r), r.choice(["0", "1", "99", "x", "-1"])],
        lambda: ["COPY", k(r), k(r), *r.choice([(), ("REPLACE",), ("DB", "1"), ("DB", "99"), ("DB", "x"), ("what",)])],
        lambda: [r.choice(["RENAME", "RENAMENX"]), k(r), k(r)],
        lambda: ["EXPIRE", k(r), span(r), *r.choice([(), (), ("NX",), ("xx",), ("GT",), ("LT",), ("NX", "XX"), ("GT", "LT"), ("QQ",)])],
        lambda: ["PEXPIRE", k(r), span(r, 1000), *r.choice([(), ("NX",), ("GT",), ("LT",), ("XX", "GT")])],
        lambda: ["EXPIREAT", k(r), at(r, 1)],
        lambda: ["PEXPIREAT", k(r), at(r, 1000)],
        lambda: [r.choice(["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), k(r)],
        lambda: ["PERSIST", k(r)],
        lambda: ["DBSIZE"],
        lambda: ["KEYS", r.choice([b"*", b"key:?", b"[a-b]", b"nothing", b"k*", b"[^a]"])],
        lambda: ["SELECT", r.choice(["0", "0", "0", "1", "15", "16", "-1", "x"])],
        lambda: ["PING", *r.choice([(), (b"hi",), (b"a", b"b")])],
        lambda: ["ECHO", value(r)],
        lambda: ["MULTI"],
        lambda: ["EXEC"],
        lambda: ["EXEC"],
        lambda: ["DISCARD"],
        lambda: ["WATCH", k(r), k(r)],
        lambda: ["UNWATCH"],
        lambda: [r.choice(["GET", "SET", "APPEND", "EXPIRE", "INCR", "MGET", "DEL", "SETRANGE"])],
        lambda: ["NOSUCH", r.choice(["x", "x" * 200, "", "a\0b"]), r.choice(["y", "z" * 150])],
        lambda: ["LPUSHX"[:3], k(r)],
        lambda: [r.choice(["FLUSHDB", "FLUSHALL"]), *r.choice([(), ("ASYNC",), ("SYNC",), ("x",)])] if r.random() < 0.05 else ["PING"],
        lambda: ["SET", r.choice([b"float", b"float2"]), r.choice([b"1.5", b"-0.25", b"3.0", b"abc", b"1e2", b"", b"0"])],
        lambda: [r.choice(["DEL", "GET", "STRLEN"]), r.choice([b"float", b"float2"])],
        lambda: ["DUMP", k(r)],
        lambda: ["RESTORE", k(r), r.choice(["0", "100000000", "-1", "x"]), r.choice(DUMPS), *r.choice([(), ("REPLACE",), ("replace", "ABSTTL"), ("FREQ", "300"), ("IDLETIME", "-1")])],
        lambda: ["OBJECT", "REFCOUNT", "no such key"],
        lambda: ["CLIENT", "GETNAME"],
        lambda: ["CLIENT", "SETNAME", r.choice(["me", "a b", ""])],
        lambda: ["CLIENT", "REPLY", r.choice(["on", "x"])],
        lambda: ["PUBSUB", "NUMPAT"],
        lambda: ["PUBLISH", "channel", "message"],
        lambda: ["SCAN", "x"],
        lambda: ["SCAN", "0", "COUNT", r.choice(["0", "x"])],
        lambda: ["SCAN", "0", "WHAT"],
        lambda: ["COMMAND", "GETKEYS", "MSET", "a", "b", "c", "d"],
        lambda: ["OBJECT", "ENCODING", "no such key"],
        lambda: ["HELLO", *r.choice([("2",), ("3",), ("3",), ("4",), ("x",), (), ("3", "AUTH", "a"), ("2", "SETNAME", "you")])],
        lambda: ["RESET"] if r.random() < 0.3 else ["PING"],
        lambda: [r.choice(["SUBSCRIBE", "PSUBSCRIBE"]), "unused"] if r.random() < 0.2 else ["UNSUBSCRIBE", "unused"],
        lambda: ["PUNSUBSCRIBE", "unused"],
        lambda: ["SSUBSCRIBE", r.choice(["unused", "unused2"])] if r.random() < 0.2 else ["SUNSUBSCRIBE", r.choice(["unused", "unused2"])],
        lambda: ["SPUBLISH", "shard", "message"],
        lambda: ["PUBSUB", *r.choice([("SHARDCHANNELS", "unused"), ("SHARDCHANNELS", "nothing"), ("SHARDNUMSUB", "unused2", "unused")])],
        lambda: ["SET", b"encoded", value(r)],
        lambda: ["OBJECT", r.choice(["ENCODING", "encoding", "FREQ"]), r.choice([b"encoded", b"absent"])],
        lambda: ["OBJECT", r.choice(["ENCODING", "NOSUCH", "REFCOUNT"]), *r.choice([(), (b"encoded", b"x")])],
        lambda: ["SETRANGE", k(r), r.choice([b"0", b"7", b"63", b"2000"]), value(r)],
        lambda: ["COMMAND", "GETKEYS", *anything(r)],
        lambda: anything(r),
        lambda: anything(r),
        lambda: anything(r),
        lambda: anything(r),
        # A transaction sees the keys of a file as they were before it.
        lambda: ["PING"] if "--file" in sys.argv else ["SCAN", "0", "COUNT", "1000", *r.choice([(), ("TYPE", r.choice(["string", "STRING", "list", "hash", "nonsense"])), ("MATCH", r.choice(["*", "key*", "[ab]"]))])],
    ]
    words = r.choice(plain)()
    words[0] = random_case(r, words[0])
    return words


def comparable(words, reply):
    name = words[0].upper()
    if name == "KEYS" and isinstance(reply, list):
        return sorted(reply)
    if name == "SCAN" and isinstance(reply, list) and len(reply) == 2:
        return [reply[0], sorted(reply[1])]
    if name == "HELLO" and isinstance(reply, (list, dict)):
        # Without the number of the connection.
        words = reply if isinstance(reply, list) else [part for pair in reply["map"] for part in pair]
        return [isinstance(reply, list), *(part for index, part in enumerate(words) if index != 7)]
    return reply


def equal(words, mine, theirs):
    mine, theirs = comparable(words, mine), comparable(words, theirs)
    if mine == theirs:
        return True
    name = words[0].upper()
    if name == "DUMP" and isinstance(theirs, bytes) and isinstance(mine, bytes):
        DUMPS.append(theirs)
        if theirs[1] == 0xC3:
            return True  # compressed, which this server only reads
    # The clocks of two servers are read at two times.
    if name in ("TTL", "PTTL", "PEXPIRETIME", "EXPIRETIME") and isinstance(mine, int) and isinstance(theirs, int):
        return min(mine, theirs) > 0 and abs(mine - theirs) <= (10_000 if name.startswith("P") else 10)
    return False


def main():
    redis = servers.redis()
    if redis is None:
        print("SKIPPED: comparison with redis-server, which is not installed (apt install redis-server)")
        return
    file_options = []
    if "--file" in sys.argv:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        file_options = ["--file", os.path.join(folder, "t.spt")]
    mine = servers.splitpoint(*file_options)
    r = random.Random(SEED)
    pairs = [(Connection(mine.port), Connection(redis.port)) for _ in range(2)]
    queues, kinds = [None, None], set()
    history, count, expiries = [], 0, 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        which = r.randrange(2)
        commands = [command(r) for _ in range(r.choice([1, 1, 2, 5, 20, 100]))]
        answers = [connection.pipeline(commands) for connection in pairs[which]]
        for words, got, expected in zip(commands, *answers):
            count += 1
            history.append((which, words, got, expected))
            name = words[0].upper()
            if name == "EXEC" and isinstance(got, list) and isinstance(expected, list) and queues[which] is not None:
                ok = len(got) == len(expected) == len(queues[which]) and all(map(equal, queues[which], got, expected))
            else:
                ok = equal(words, got, expected)
            # A watched key expired for one server and not yet for the other, or DBSIZE counts a key that has expired.
            is_late = got != expected and (name == "EXEC" and None in (got, expected) or name == "DBSIZE") and expiries < 2
            # Redis keeps what a command did before it found a damaged HyperLogLog; here a command that fails does nothing.
            is_partial = got == expected and "-INVALIDOBJ" in repr(got)
            if is_late or is_partial:
                # They differ from here on, so both restart; a fault would show up again.
                expiries += is_late
                for pair in pairs:
                    for connection in pair:
                        connection.pipeline([["DISCARD"], ["UNWATCH"], ["FLUSHALL"]])
                queues = [None, None]
                break
            if got == expected == "+QUEUED" and queues[which] is not None:
                queues[which].append(words)
            elif name == "MULTI" and got == "+OK":
                queues[which] = []
            if not ok and "--survey" in sys.argv:
                kind = (name, len(words), re.sub(r"[0-9]+", "#", f"{got!r:.40} {expected!r:.40}"))
                if kind not in kinds:
                    print(f"  {words!r:.200}\n    splitpoint {got!r:.150}\n    redis      {expected!r:.150}", flush=True)
                kinds.add(kind)
                for pair in pairs:
                    for connection in pair:
                        connection.pipeline([["RESET"], ["FLUSHALL"]])
                queues = [None, None]
                break
            if not ok:
                if name == "EXEC" and isinstance(got, list) and isinstance(expected, list) and queues[which] is not None:
                    history += [("transaction", *entry) for entry in zip(queues[which], got, expected) if not equal(*entry)]
                print(f"differential: seed {SEED}, command {count}: replies differ. The last commands:")
                for entry in history[-12:]:
                    print("  connection {}: {:.300}\n    splitpoint {:.300}\n    redis      {:.300}".format(entry[0], *map(repr, entry[1:])))
                sys.exit(1)
            if name in ("EXEC", "DISCARD") or got == "+RESET":
                queues[which] = None
        if count % 50 == 0:
            history = history[-200:]
    print(f"differential: {count} replies are equal to redis's but for {expiries} expiries (seed {SEED})")


main()
