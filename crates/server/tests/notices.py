#!/usr/bin/env python3
"""Keyspace notifications, CLIENT TRACKING and MONITOR: every message is the one that Debian's redis sends.

    notices.py [--file] [SEED]

Random commands go to both servers; after each, all messages for three other clients are compared.
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

SEED = int(next((word for word in sys.argv[1:] if word.isdigit()), random.randrange(1 << 32)))
KEYS = ["a", "b", "ab", "c", "x:1"]
# A time far away, and one that has passed.
FAR, PAST = int(time.time()) + 10**6, 1000


# Of entries: their IDs grow.
count = [20]


def command(r):
    count[0] += 1
    k = lambda: r.choice(KEYS)
    n = lambda: r.choice(["1", "5", "-3"])
    choices = [
        lambda: ["SET", k(), n()],
        lambda: ["SET", k(), n(), *r.choice([("EX", "1000"), ("NX",), ("XX",), ("KEEPTTL",), ("GET",), ("PXAT", FAR * 1000), ("XX", "EX", "50")])],
        lambda: ["SETNX", k(), n()],
        lambda: ["SETEX", k(), "1000", n()],
        lambda: ["PSETEX", k(), "100000", n()],
        lambda: ["GETSET", k(), n()],
        lambda: ["GETDEL", k()],
        lambda: ["GETEX", k(), *r.choice([(), ("EX", str(r.randrange(1000, 10**6))), ("PERSIST",), ("EXAT", PAST)])],
        lambda: ["MSET", k(), n(), k(), n()],
        lambda: ["MSETNX", k(), n(), k(), n()],
        lambda: ["APPEND", k(), "1"],
        lambda: ["SETRANGE", k(), r.choice(["0", "3"]), r.choice(["", "12"])],
        lambda: [r.choice(["INCR", "DECR"]), k()],
        lambda: [r.choice(["INCRBY", "DECRBY", "INCRBYFLOAT"]), k(), n()],
        lambda: ["SETBIT", k(), "7", r.choice(["0", "1"])],
        lambda: ["BITFIELD", k(), "SET", "u8", "0", "65", "INCRBY", "u8", "8", "1"],
        lambda: ["BITOP", "OR", k(), k(), k()],
        lambda: ["PFADD", r.choice(["h1", "h2"]), n()],
        lambda: ["PFCOUNT", "h1"],
        lambda: ["PFMERGE", "h3", "h1", "h2"],
        lambda: [r.choice(["DEL", "UNLINK"]), k(), k()],
        lambda: [r.choice(["GET", "STRLEN", "TYPE", "EXISTS", "TTL"]), k()],
        lambda: ["MGET", k(), k()],
        lambda: ["MOVE", k(), r.choice("01")],
        lambda: ["COPY", k(), k(), *r.choice([(), ("REPLACE",)])],
        lambda: [r.choice(["RENAME", "RENAMENX"]), k(), k()],
        lambda: ["EXPIREAT", k(), r.choice([PAST, FAR + r.randrange(10**6)])],
        lambda: ["PERSIST", k()],
        lambda: [r.choice(["HSET", "HSETNX"]), k(), n(), n()],
        lambda: ["HDEL", k(), n(), n()],
        lambda: [r.choice(["HINCRBY", "HINCRBYFLOAT"]), k(), n(), n()],
        lambda: ["SADD", k(), n(), n()],
        lambda: ["SREM", k(), n()],
        lambda: ["SMOVE", k(), k(), n()],
        lambda: ["SPOP", k(), "10"],
        lambda: [r.choice(["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"]), k(), k(), k()],
        lambda: [r.choice(["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), k(), n()],
        lambda: [r.choice(["LPOP", "RPOP"]), k(), *r.choice([(), ("2",), ("0",)])],
        lambda: ["LSET", k(), "0", n()],
        lambda: ["LREM", k(), "0", n()],
        lambda: ["LTRIM", k(), r.choice(["0", "1"]), "2"],
        lambda: ["LINSERT", k(), "BEFORE", n(), n()],
        lambda: ["LMOVE", k(), k(), r.choice(["LEFT", "RIGHT"]), r.choice(["LEFT", "RIGHT"])],
        lambda: [r.choice(["RPOPLPUSH", "BRPOPLPUSH"]), k(), k()],
        lambda: ["LMPOP", "2", k(), k(), r.choice(["LEFT", "RIGHT"])],
        lambda: [r.choice(["BLPOP", "BRPOP"]), k(), k()],
        lambda: ["ZADD", k(), *r.choice([(), ("XX",), ("NX",), ("CH", "GT"), ("INCR",)]), n(), r.choice(["incr", "min", "1"])],
        lambda: ["ZINCRBY", k(), n(), n()],
        lambda: ["ZREM", k(), "incr", n()],
        lambda: ["ZREMRANGEBYRANK", k(), "0", r.choice(["0", "-1"])],
        lambda: ["ZREMRANGEBYSCORE", k(), "-inf", n()],
        lambda: ["ZREMRANGEBYLEX", k(), "-", "+"],
        lambda: [r.choice(["ZPOPMIN", "ZPOPMAX"]), k(), *r.choice([(), ("2",)])],
        lambda: ["ZMPOP", "2", k(), k(), r.choice(["MIN", "MAX"])],
        lambda: ["ZRANGESTORE", k(), k(), "0", r.choice(["1", "-5"])],
        lambda: [r.choice(["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]), k(), "2", k(), k()],
        lambda: [r.choice(["BZPOPMIN", "BZPOPMAX"]), k(), k()],
        lambda: ["XADD", k(), *r.choice([(), ("MAXLEN", "2"), ("MINID", "5"), ("NOMKSTREAM",)]), r.choice([f"{r.randrange(20)}-*", "1-*"]), n(), n()],
        lambda: ["XADD", r.choice(["a", "b"]), f"{count[0]}-0", n(), n()],
        lambda: ["XDEL", k(), *(f"{count[0] - at}-0" for at in range(5))],
        lambda: ["XTRIM", k(), "MAXLEN", r.choice(["0", "1"])],
        lambda: ["XSETID", k(), "99999-0"] if r.random() < 0.1 else ["XLEN", k()],
        lambda: ["XGROUP", "CREATE", k(), r.choice(["g", "h"]), r.choice(["0", "$"]), *r.choice([(), ("MKSTREAM",)])],
        lambda: ["XGROUP", r.choice(["SETID", "CREATE"]), k(), "g", "0"],
        lambda: ["XGROUP", "DESTROY", k(), "g"],
        lambda: ["XGROUP", r.choice(["CREATECONSUMER", "DELCONSUMER"]), k(), "g", r.choice(["c", "d"])],
        lambda: ["XREADGROUP", "GROUP", "g", r.choice(["c", "d"]), *r.choice([(), ("NOACK",), ("COUNT", "1")]), "STREAMS", k(), r.choice([">", ">", "0"])],
        lambda: ["XREAD", "STREAMS", k(), "0"],
        lambda: ["XACK", k(), "g", *(f"{count[0] - at}-0" for at in range(5))],
        lambda: ["XCLAIM", k(), "g", r.choice(["c", "d"]), "0", *(f"{count[0] - at}-0" for at in range(3)), "FORCE"],
        lambda: ["XAUTOCLAIM", k(), "g", r.choice(["c", "d"]), "0", "0"],
        lambda: ["MULTI"],
        lambda: ["EXEC"],
        lambda: ["EXEC"],
        lambda: ["FLUSHALL"] if r.random() < 0.1 else ["PING"],
    ]
    words = [str(word) for word in r.choice(choices)()]
    return words + ["0.001"] if words[0] in ("BLPOP", "BRPOP", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX") else words


class Watchers:
    """A writer, and clients of the same server that receive its notifications."""

    def __init__(self, port):
        self.writer, self.subscriber, self.monitor = Connection(port), Connection(port), Connection(port)
        self.tracker, self.broadcast, self.redirected, self.target = (Connection(port) for _ in range(4))
        self.writer.call("CONFIG", "SET", "notify-keyspace-events", "KEAn")
        for connection in (self.writer, self.tracker, self.broadcast):
            connection.call("HELLO", "3")
        self.subscriber.call("PSUBSCRIBE", "__key*")
        # One shard channel: a message there marks the end.
        self.subscriber.call("SSUBSCRIBE", "end")
        self.writer.call("CLIENT", "TRACKING", "ON", "NOLOOP")
        self.tracker.call("CLIENT", "TRACKING", "ON")
        self.broadcast.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "x:")
        id = self.target.call("CLIENT", "ID")
        self.target.call("SUBSCRIBE", "__redis__:invalidate")
        self.redirected.call("CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN")
        self.monitor.call("MONITOR")

    def replies_until(self, connection, is_last):
        replies = []
        while not replies or not is_last(replies[-1]):
            replies.append(connection.reply())
        return replies[:-1]

    def messages(self, words, read):
        """The reply to a command, and the notifications of the others."""
        self.writer.send(words)
        is_push = lambda reply: isinstance(reply, list) and reply and reply[0] == b"invalidate"
        told = []
        reply = self.writer.reply()
        while is_push(reply):
            told.append(("writer", reply))
            reply = self.writer.reply()
        self.subscriber_end()
        events = [("event", message) for message in self.replies_until(self.subscriber, lambda last: last[0] == b"smessage")]
        # Redis has stored the new name before it removes the old one.
        in_any_order = ("RENAME", "RENAMENX", "MOVE", "EXEC")
        told += sorted(events, key=repr) if words[0] in in_any_order else events
        for name, connection in (("tracker", self.tracker), ("broadcast", self.broadcast)):
            connection.send(("PING",))
            # Redis sends the keys of one event loop's turn together, each once.
            keys = {key for message in self.replies_until(connection, lambda last: last == "+PONG") for key in message[1] or [None]}
            told += sorted(((name, key) for key in keys), key=repr)
        self.target.send(("PING",))
        invalidated = [("target", message) for message in self.replies_until(self.target, lambda last: last[0] == b"pong")]
        told += sorted(invalidated, key=repr) if words[0] in in_any_order else invalidated
        # Reads by the clients that track.
        self.tracker.send(("GET", read))
        self.replies_until(self.tracker, lambda last: not is_push(last))
        self.redirected.call("CLIENT", "CACHING", "YES")
        self.redirected.call("GET", read)
        lines = self.replies_until(self.monitor, lambda last: f'"GET" "{read}"' in last and "GET" in last and self.count_get(last))
        told += [("monitor", re.sub(r"^\+[0-9.]+ \[([0-9]+) [^]]*\]", r"\1", line)) for line in lines]
        # In a transaction too, members have no order.
        if words[0] == "EXEC" and isinstance(reply, list):
            reply = [sorted(one, key=repr) if isinstance(one, list) else one for one in reply]
        return reply, told

    gets = 0

    def count_get(self, _):
        # Two clients read the key; the second ends the lines of this command.
        self.gets += 1
        return self.gets % 2 == 0

    def subscriber_end(self):
        # By another connection, so that the writer's own messages are not mixed in.
        self.redirected.call("SPUBLISH", "end", "")


def in_one_order(words, reply, told):
    """Members of a set come in any order, from SPOP itself and within EXEC."""
    if words[0] == "SPOP" and isinstance(reply, list):
        reply = sorted(reply, key=repr)
    if words[0] == "EXEC" and isinstance(reply, list):
        reply = [sorted(one, key=repr) if isinstance(one, list) else one for one in reply]
    return reply, told


def main():
    redis = servers.redis()
    if redis is None:
        print("SKIPPED: comparison with redis-server, which is not installed (apt install redis-server)")
        return
    options = []
    if "--file" in sys.argv:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        options = ["--file", os.path.join(folder, "t.spt")]
    mine, theirs = Watchers(servers.splitpoint(*options).port), Watchers(redis.port)
    r, count = random.Random(SEED), 0
    for number in range(3000):
        words, read = command(r), r.choice(KEYS)
        while words[:2] == ["GET", read]:
            read = r.choice(KEYS)
        got, expected = (in_one_order(words, *server.messages(words, read)) for server in (mine, theirs))
        if got != expected:
            print(f"notices: seed {SEED}, command {number}: {words} differs; told:")
            for one, other in zip(got[1] + [None] * 20, expected[1] + [None] * 20):
                if one or other:
                    print(f"    splitpoint {one}\n    redis      {other}")
            print(got[0], expected[0])
            sys.exit(1)
        count += len(got[1])
    print(f"notices: {count} messages are equal to redis's (seed {SEED})")


main()
