#!/usr/bin/env python3
"""The same random commands on hashes, sets, lists, sorted sets and streams to Debian's redis and to this server: replies have to be equal.

    KINDS=streams,lists collections_differential.py [--file] [--survey] [SECONDS] [SEED]

--survey continues after a difference, and shows each kind of them once.

Keys change their types, collections go from one element to thousands and back, with transactions, copies, lifetimes and
commands of other types. Fields and members have no order in either server, so replies without one are compared sorted.
Of what is chosen at random, the number is compared, and that it is there. Times of streams are compared by whether they are
long ago. IDs are given, as those that the servers choose differ.
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
ONLY = [word for word in os.environ.get("KINDS", "").split(",") if word]
KEYS = [b"a", b"b", b"c", b"d", b"s", b"\x00sp\xffs12345678", b"\x00sp\xffm"]
LONG = 10**6
# Replies without an order, by what belongs together.
# SPOP is asked for all members.
UNORDERED = {"HKEYS": 1, "HVALS": 1, "HGETALL": 2, "SMEMBERS": 1, "SPOP": 1, "SUNION": 1, "SINTER": 1, "SDIFF": 1, "KEYS": 1}
RANDOM = {"HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER"}


def key(r):
    return r.choice(KEYS)


def element(r):
    kind = r.randrange(20)
    if kind < 8:
        return str(r.randrange(30)).encode()
    if kind < 14:
        return b"element:%d" % r.randrange(2000)
    if kind < 17:
        return r.choice([b"", b"1.5", b"-7", b"x", b"9223372036854775807", b"-9223372036854775808", b"01", b"1e2", b" 1", b"\r\n"])
    if kind < 19:
        return bytes([r.randrange(256)]) * r.choice([63, 64, 65, 127, 128, 500])
    return bytes([r.randrange(256)]) * r.choice([1000, 3000, 20_000])


def number(r):
    return r.choice([b"0", b"1", b"-1", b"2", b"5", b"-5", b"100", b"-100", b"9223372036854775807", b"x", b"", b"1.5"])


def index(r):
    return str(r.choice([0, 1, -1, 2, -2, 5, -5, 30, -30, 100, 1000, -1000])).encode()


def count(r):
    return str(r.choice([0, 1, 1, 2, 3, 10, 100, 10_000, -1, -5, "x", 2**63])).encode()


def many(r, make, most=400):
    return [make(r) for _ in range(r.choice([1, 1, 1, 2, 3, 10, most]))]


def pairs(r):
    return [word for _ in range(r.choice([1, 1, 2, 3, 10, 300])) for word in (element(r), element(r))]


def hashes(r):
    k = key
    return r.choice([
        lambda: [r.choice(["HSET", "HMSET"]), k(r), *pairs(r)],
        lambda: [r.choice(["HSET", "HMSET"]), k(r), *pairs(r)],
        lambda: ["HSET", k(r), element(r), element(r), element(r)],
        lambda: ["HSETNX", k(r), element(r), element(r)],
        lambda: ["HGET", k(r), element(r)],
        lambda: ["HMGET", k(r), *many(r, element)],
        lambda: ["HDEL", k(r), *many(r, element, 1500)],
        lambda: ["HEXISTS", k(r), element(r)],
        lambda: ["HLEN", k(r)],
        lambda: ["HSTRLEN", k(r), element(r)],
        lambda: [r.choice(["HKEYS", "HVALS", "HGETALL"]), k(r)],
        lambda: ["HINCRBY", k(r), element(r), number(r)],
        lambda: ["HINCRBYFLOAT", k(r), r.choice([b"float", b"float2"]), r.choice([b"0.5", b"-1.25", b"3", b"x", b"", b"nan", b" 1"])],
        lambda: ["HSCAN", k(r), "0", "COUNT", "100000", *r.choice([(), (), ("MATCH", "element:1*")])],
        lambda: ["HSCAN", k(r), *r.choice([("x",), ("0", "COUNT", "0"), ("0", "WHAT"), ("0", "MATCH")])],
        lambda: ["HRANDFIELD", k(r), *r.choice([(), (count(r),), (count(r), "WITHVALUES"), (count(r), "x"), ("-9223372036854775808",)])],
    ])()


def sets(r):
    k = key
    keys = lambda: [k(r) for _ in range(r.choice([1, 2, 2, 3]))]
    return r.choice([
        lambda: ["SADD", k(r), *many(r, element)],
        lambda: ["SADD", k(r), *many(r, element)],
        lambda: ["SADD", k(r), *(str(r.randrange(600)) for _ in range(r.choice([1, 5, 300])))],
        lambda: ["SREM", k(r), *many(r, element, 1500)],
        lambda: ["SISMEMBER", k(r), element(r)],
        lambda: ["SMISMEMBER", k(r), *many(r, element)],
        lambda: ["SMEMBERS", k(r)],
        lambda: ["SCARD", k(r)],
        lambda: ["SPOP", k(r), r.choice(["0", "100000", "100000", "-1", "x"])],
        lambda: ["SRANDMEMBER", k(r), *r.choice([(), (count(r),), (count(r), "x")])],
        lambda: ["SMOVE", k(r), k(r), element(r)],
        lambda: [r.choice(["SINTER", "SUNION", "SDIFF"]), *keys()],
        lambda: [r.choice(["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"]), k(r), *keys()],
        lambda: ["SINTERCARD", r.choice(["1", "2", "2", "0", "x", "5"]), k(r), k(r), *r.choice([(), ("LIMIT", "3"), ("LIMIT", "-1"), ("LIMIT",)])],
        lambda: ["SSCAN", k(r), "0", "COUNT", "100000", *r.choice([(), (), ("MATCH", "element:1*")])],
        lambda: ["SSCAN", k(r), *r.choice([("x",), ("0", "COUNT", "0"), ("0", "WHAT"), ("0", "MATCH")])],
    ])()


def lists(r):
    k = key
    end = lambda: r.choice(["LEFT", "RIGHT", "left", "right", "LEFT", "MIDDLE"])
    return r.choice([
        lambda: [r.choice(["LPUSH", "RPUSH"]), k(r), *many(r, element)],
        lambda: [r.choice(["LPUSH", "RPUSH"]), k(r), *many(r, element)],
        lambda: [r.choice(["LPUSHX", "RPUSHX"]), k(r), *many(r, element, 30)],
        lambda: [r.choice(["LPOP", "RPOP"]), k(r), *r.choice([(), (), (count(r),), ("1", "2")])],
        lambda: ["LLEN", k(r)],
        lambda: ["LRANGE", k(r), index(r), index(r)],
        lambda: ["LRANGE", k(r), "0", "-1"],
        lambda: ["LINDEX", k(r), r.choice([index(r), number(r)])],
        lambda: ["LSET", k(r), r.choice([index(r), number(r)]), element(r)],
        lambda: ["LREM", k(r), number(r), element(r)],
        lambda: ["LREM", k(r), index(r), str(r.randrange(30))],
        lambda: ["LTRIM", k(r), index(r), index(r)] if r.random() < 0.5 else ["LTRIM", k(r), "1", "-2"],
        lambda: ["LINSERT", k(r), r.choice(["BEFORE", "AFTER", "before", "x"]), element(r), element(r)],
        lambda: ["LINSERT", k(r), r.choice(["BEFORE", "AFTER"]), str(r.randrange(30)), element(r)],
        lambda: ["LPOS", k(r), str(r.randrange(30)), *r.choice([(), ("RANK", number(r)), ("COUNT", number(r)), ("RANK", "-2", "COUNT", "0"), ("MAXLEN", "5"), ("COUNT", "0", "MAXLEN", number(r)), ("x",), ("RANK",)])],
        lambda: ["LMOVE", k(r), k(r), end(), end()],
        lambda: ["RPOPLPUSH", k(r), k(r)],
        lambda: ["LMPOP", r.choice(["1", "2", "2", "0", "x", "7"]), k(r), k(r), end(), *r.choice([(), ("COUNT", number(r))])],
        lambda: ["LMPOP", "1", k(r), end(), *r.choice([(), ("COUNT", "3"), ("COUNT",), ("x", "1")])],
    ])()


def score(r):
    kind = r.randrange(20)
    if kind < 9:
        return str(r.randrange(-20, 20))
    if kind < 13:
        return repr(r.randrange(-1000, 1000) / r.choice([1, 2, 3, 10, 1e6, 1e-18]))
    if kind < 15:
        return str(r.randrange(-(2**60), 2**60))
    return r.choice(["inf", "-inf", "+5", "1e3", "0x1A", "-0", "0", "3.1", "1e400", "nan", "x", "", " 1", "1 ", "1e-400", "Infinity", "5e-324", ".5", "5."])


def bound(r):
    return r.choice(["", "", "("]) + r.choice([score(r), score(r), "-inf", "+inf", "inf", "", "x", "nan", " 5"])


def limit(r):
    # Which members are in a range while scores differ, Redis does not say.
    return r.choice(["-", "+", "[element:1", "(element:1", "[element:9", "(element:700", "[", "(", "[\xff", "[1", "(5", "x", ""])


def members(r):
    return [word for _ in range(r.choice([1, 1, 1, 2, 3, 10, 100, 600])) for word in (score(r) if r.random() < 0.02 else str(r.randrange(-50, 50) / r.choice([1, 1, 4, 3])), element(r))]


def rank(r):
    return r.choice([index(r), index(r), number(r)])


def options(r):
    chosen = [("WITHSCORES",), ("LIMIT", str(r.randrange(-1, 10)), str(r.randrange(-1, 50))), ("REV",), ("x",), ("LIMIT", "1"), ("LIMIT", "x", "1")]
    return [word for option in r.sample(chosen, r.choice([0, 0, 1, 1, 2, 3])) if r.random() < 0.9 or len(option) == 3 for word in option]


def several(r):
    count = r.choice([1, 2, 2, 3])
    keys = [key(r) for _ in range(count)]
    extra = r.choice([(), (), (), ("WEIGHTS", *(score(r) for _ in range(r.choice([count, count, count - 1])))), ("AGGREGATE", r.choice(["SUM", "MIN", "MAX", "x"])), ("WEIGHTS", *(str(r.randrange(-3, 4)) for _ in range(count)), "AGGREGATE", "max"), ("WITHSCORES",), ("x",), ("AGGREGATE",)])
    return [r.choice([str(count)] * 8 + ["0", "-1", "x", "9"]), *keys, *extra]


def sorted_sets(r):
    k = key
    return r.choice([
        lambda: ["ZADD", k(r), *members(r)],
        lambda: ["ZADD", k(r), *members(r)],
        lambda: ["ZADD", k(r), score(r), element(r)],
        lambda: ["ZADD", k(r), *r.sample(["NX", "XX", "GT", "LT", "CH", "INCR", "ch", "gt"], r.choice([1, 1, 2, 3])), *r.choice([members(r), (score(r), element(r))])],
        lambda: ["ZADD", k(r), *(word for n in range(r.choice([30, 800])) for word in (str(n * r.choice([1, 7])), b"element:%d" % n))],
        # All with one score, for ranges of members.
        lambda: ["ZADD", "lex", *(word for n in range(r.choice([1, 20, 500])) for word in ("0", b"element:%d" % r.randrange(2000)))],
        lambda: ["ZADD", "lex", "0", element(r)],
        lambda: ["ZINCRBY", k(r), score(r), element(r)],
        lambda: ["ZREM", k(r), *many(r, element, 1500)],
        lambda: ["ZCARD", k(r)],
        lambda: [r.choice(["ZSCORE", "ZMSCORE"]), k(r), element(r)],
        lambda: ["ZMSCORE", k(r), *many(r, element)],
        lambda: [r.choice(["ZRANK", "ZREVRANK"]), k(r), element(r)],
        lambda: ["ZCOUNT", k(r), bound(r), bound(r)],
        lambda: ["ZLEXCOUNT", "lex", limit(r), limit(r)],
        lambda: ["ZRANGE", k(r), rank(r), rank(r), *options(r)],
        lambda: ["ZRANGE", k(r), "0", "-1", "WITHSCORES"],
        lambda: ["ZRANGE", k(r), bound(r), bound(r), "BYSCORE", *options(r)],
        lambda: ["ZRANGE", "lex", limit(r), limit(r), "BYLEX", *options(r)],
        lambda: ["ZREVRANGE", k(r), rank(r), rank(r), *options(r)],
        lambda: [r.choice(["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]), k(r), bound(r), bound(r), *options(r)],
        lambda: [r.choice(["ZRANGEBYLEX", "ZREVRANGEBYLEX"]), "lex", limit(r), limit(r), *options(r)],
        lambda: ["ZRANGESTORE", k(r), k(r), *r.choice([(rank(r), rank(r)), (bound(r), bound(r), "BYSCORE")]), *options(r)],
        lambda: ["ZRANGESTORE", "lex", "lex", limit(r), limit(r), "BYLEX", *options(r)],
        lambda: ["ZREMRANGEBYRANK", k(r), rank(r), rank(r)],
        lambda: ["ZREMRANGEBYSCORE", k(r), bound(r), bound(r)],
        lambda: ["ZREMRANGEBYLEX", "lex", limit(r), limit(r)],
        lambda: [r.choice(["ZPOPMIN", "ZPOPMAX"]), k(r), *r.choice([(), (), (count(r),), ("1", "2")])],
        lambda: [r.choice(["ZPOPMIN", "ZPOPMAX"]), k(r)],
        lambda: ["ZMPOP", r.choice(["1", "2", "2", "0", "x", "7"]), k(r), k(r), r.choice(["MIN", "max", "x"]), *r.choice([(), ("COUNT", number(r))])],
        lambda: ["ZMPOP", "1", k(r), "MIN", *r.choice([(), ("COUNT", "3"), ("COUNT",), ("x", "1")])],
        lambda: ["ZRANDMEMBER", k(r), *r.choice([(), (count(r),), (count(r), "WITHSCORES"), (count(r), "x"), ("-9223372036854775808", "WITHSCORES")])],
        lambda: ["ZSCAN", k(r), "0", "COUNT", "100000", *r.choice([(), (), ("MATCH", "element:1*")])],
        lambda: ["ZSCAN", k(r), *r.choice([("x",), ("0", "COUNT", "0"), ("0", "WHAT"), ("0", "MATCH")])],
        lambda: [r.choice(["ZUNION", "ZINTER", "ZDIFF"]), *several(r)],
        lambda: [r.choice(["ZUNION", "ZINTER", "ZDIFF"]), "2", k(r), k(r), "WITHSCORES"],
        lambda: [r.choice(["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]), k(r), *several(r)],
        lambda: ["ZINTERCARD", r.choice(["1", "2", "2", "0", "x", "5"]), k(r), k(r), *r.choice([(), ("LIMIT", "3"), ("LIMIT", "-1"), ("LIMIT",)])],
        lambda: ["DEL", k(r)],
    ])()


def place(r):
    """A longitude and a latitude, most of them near others."""
    if r.random() < 0.03:
        return r.choice([("181", "0"), ("0", "86"), ("x", "1"), ("1", "x"), ("-180", "-85.05112878"), ("180", "85.05112878"), ("nan", "0"), ("", "0")])
    if r.random() < 0.1:
        return repr(r.uniform(-180, 180)), repr(r.uniform(-85, 85))
    longitude, latitude = r.choice([(13.36, 38.11), (-122.4, 37.7), (179.99, 0.01), (25, 70), (0, 84.9)])
    return repr(max(-180, min(180, longitude + r.gauss(0, 0.5)))), repr(max(-85, min(85, latitude + r.gauss(0, 0.3))))


def unit(r):
    return r.choice(["m", "km", "ft", "mi", "KM", "x"][: 6 if r.random() < 0.1 else 5])


def distance(r):
    return r.choice(["0", "100", "500", "3000.5", "50000", "1e7", "200", "90"]) if r.random() < 0.95 else r.choice(["-1", "x", "", "1e400", "inf"])


def geo(r):
    k = lambda: r.choice(["geo", "geo", "geo", key(r)])
    name = lambda: r.choice([b"p%d" % r.randrange(300), element(r)])
    shape = lambda: r.choice([["BYRADIUS", distance(r), unit(r)], ["BYBOX", distance(r), distance(r), unit(r)], ["bybox", "400", "300", "km"]])
    origin = lambda: r.choice([["FROMLONLAT", *place(r)], ["FROMMEMBER", name()], ["fromlonlat", "13.4", "38.1"]])
    extra = lambda: [word for option in r.sample([["ASC"], ["DESC"], ["WITHDIST"], ["WITHHASH"], ["WITHCOORD"], ["COUNT", r.choice(["1", "3", "20", "0", "-1", "x"])], ["COUNT", "5", "ANY"], ["ANY"], ["x"]], r.choice([0, 0, 1, 1, 2, 3])) for word in option]
    store = lambda: r.choice([[], [], [], ["STORE", r.choice(["geo2", key(r)])], ["STOREDIST", "geo2"], ["STORE"]])

    def limited(words):
        """A command that stores what COUNT leaves; with equal distances Redis leaves any, so only the number is looked at."""
        if "COUNT" in words:
            for at, word in enumerate(words):
                if word in ("STORE", "STOREDIST") and words[0].startswith("GEORADIUS") and words[at + 1 :]:
                    words[at + 1] = "counted"
            if words[0] == "GEOSEARCHSTORE":
                words[1] = "counted"
        return words

    return r.choice([
        lambda: ["GEOADD", k(), *(word for _ in range(r.choice([1, 1, 2, 20, 200])) for word in (*place(r), name()))],
        lambda: ["GEOADD", k(), *(word for _ in range(r.choice([1, 1, 2, 20, 200])) for word in (*place(r), name()))],
        lambda: ["GEOADD", k(), *r.sample(["NX", "XX", "CH", "nx", "INCR"], r.choice([1, 2])), *place(r), name(), *r.choice([(), ("1",)])],
        lambda: ["GEODIST", k(), name(), name(), *r.choice([(), (unit(r),), (unit(r), "x")])],
        lambda: [r.choice(["GEOHASH", "GEOPOS"]), k(), *(name() for _ in range(r.choice([0, 1, 3])))],
        lambda: ["GEOSEARCH", k(), *origin(), *shape(), *extra()],
        lambda: ["GEOSEARCH", k(), *origin(), *shape(), *extra()],
        lambda: ["GEOSEARCH", k(), *shape(), *extra(), *origin(), *r.choice([(), origin(), shape()])],
        lambda: limited(["GEOSEARCHSTORE", r.choice(["geo2", key(r)]), k(), *origin(), *shape(), *extra(), *r.choice([(), ("STOREDIST",)])]),
        lambda: limited([r.choice(["GEORADIUS", "GEORADIUS_RO"]), k(), *place(r), distance(r), unit(r), *extra(), *store()]),
        lambda: limited([r.choice(["GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"]), k(), name(), distance(r), unit(r), *extra(), *store()]),
        lambda: ["ZCARD", "counted"],
        lambda: ["ZRANGE", r.choice(["geo", "geo2"]), "0", "-1", "WITHSCORES"],
        lambda: ["ZREM", k(), *(name() for _ in range(r.choice([1, 100])))],
    ])()


def sorts(r):
    k = lambda: r.choice(["numbers", "numbers", key(r)])
    number = lambda: str(r.randrange(-30, 60))
    limits = lambda: r.choice([[], [], ["LIMIT", index(r), index(r)], ["LIMIT", "0", "5"], ["LIMIT", "x", "1"], ["LIMIT", "1"]])
    direction = lambda: r.choice([[], ["ASC"], ["DESC"], ["desc"]])
    gets = lambda: [word for _ in range(r.choice([0, 0, 1, 2])) for word in ("GET", r.choice(["#", "weight_*", "hash_*->field", "hash_*->", "no", "*"]))]
    store = lambda: r.choice([[], [], ["STORE", r.choice(["sorted", key(r)])], ["STORE"]])
    name = lambda: r.choice(["SORT", "SORT", "SORT_RO"])
    return r.choice([
        lambda: [r.choice(["RPUSH", "SADD"]), "numbers", *(number() for _ in range(r.choice([1, 5, 40])))],
        lambda: ["ZADD", "numbers", *(word for _ in range(r.choice([1, 5, 40])) for word in (number(), number()))],
        lambda: ["DEL", "numbers"],
        lambda: ["SET", "weight_" + number(), r.choice([number(), number(), "x", "1.5", " 3", "1e400", ""])],
        lambda: ["SET", "weight_" + number(), number()],
        lambda: ["HSET", "hash_" + number(), "field", r.choice([number(), number(), "x"])],
        lambda: [name(), k(), *limits(), *direction(), *gets(), *store()],
        lambda: [name(), k(), *limits(), *direction(), "ALPHA", *gets(), *store()],
        lambda: [name(), k(), *limits(), *direction(), *gets(), "BY", r.choice(["weight_*", "hash_*->field", "no_*", "*"]), *store()],
        # Elements with equal texts may be in any order.
        lambda: [name(), k(), "BY", r.choice(["weight_*", "hash_*->field"]), "ALPHA", *direction(), *gets()],
        # A set has any order.
        lambda: [name(), k(), "BY", "nosort", *direction(), *gets()],
        lambda: [name(), k(), *r.choice([("x",), ("BY",), ("GET",)])],
        lambda: ["LRANGE", "sorted", "0", "-1"],
    ])()


def server(r):
    return r.choice([
        lambda: ["FUNCTION", *r.choice([("LIST",), ("LIST", "WITHCODE"), ("LIST", "LIBRARYNAME"), ("LIST", "x"), ("STATS",), ("FLUSH",), ("FLUSH", "x"), ("FLUSH", "SYNC", "x"), ("DUMP",), ("DELETE", "x"), ("x",), ("RESTORE", "x", "y")])],
        lambda: [r.choice(["FCALL", "FCALL_RO"]), "f", r.choice(["0", "x"])],
        lambda: ["MODULE", *r.choice([("LIST",), ("x",), ("LIST", "x")])],
        lambda: ["MEMORY", *r.choice([("PURGE",), ("x",), ("PURGE", "x")])],
        lambda: ["SWAPDB", r.choice(["0", "0", "1", "x", "99", "-1", "01"]), r.choice(["1", "0", "x"])] if "--file" not in sys.argv else ["PING"],
        lambda: ["CONFIG", "SET", *r.choice([("save", ""), ("appendonly", "no"), *[("maxmemory-policy", r.choice(["volatile-lru", "allkeys-random", "noeviction", "x"]))] * ("--file" not in sys.argv), ("hz", "20"), ("activedefrag", "x"), ("nothing", "1"), ("save", "x")])],
        lambda: ["CONFIG", "GET", r.choice(["maxmemory-policy", "hash-max-listpack-entries", "nothing"])],
    ])()


# Grows, so that most IDs are greater than those before.
now = [1]


def new_id(r):
    now[0] += r.choice([0, 0, 1, 1, 2])
    return f"{now[0]}-{r.choice(['*', '*', '*', '0', '1', '2', '5'])}"


def id(r):
    if r.random() < 0.04:
        return r.choice(["0", "-", "+", "x", "", "1-x", "5-", "(5", "$", ">", "18446744073709551615-18446744073709551615", "18446744073709551616", "05", "+3", " 4", "-1", "1--1", "0-0"])
    ms = max(0, now[0] - r.choice([r.randrange(30), r.randrange(300)]))
    return r.choice([str(ms), f"{ms}-{r.randrange(3)}", f"{ms}-0"])


def interval(r):
    return r.choice(["-", "+", id(r), id(r), "(" + id(r)])


def ids(r, most=20):
    return [id(r) for _ in range(r.choice([1, 1, 2, 5, most]))]


def streams(r):
    k = lambda: r.choice(["s", "s", "s", "t", key(r)])
    g = lambda: r.choice(["g", "g", "g", "h", "h\0\0i", ""])
    c = lambda: r.choice(["alice", "alice", "bob", "c\0d", ""])
    fields = lambda: [word for _ in range(r.choice([1, 1, 1, 2, 5])) for word in (element(r), element(r))]
    # The limit of an approximate trim depends on where Redis's nodes end.
    trim = lambda: r.choice([("MAXLEN", str(r.choice([0, 1, 5, 30, 200]))), ("MAXLEN", "=", "100"), ("MINID", id(r)), ("MINID", "=", id(r)), ("MAXLEN", "~", "1000000"), ("MINID", "~", "0"), ("MAXLEN", "-1"), ("MAXLEN", "x"), ("MINID", "x"), ("MAXLEN", "~", "1000000", "LIMIT", "5"), ("MAXLEN", "3", "LIMIT", "5"), ("MAXLEN", "~", "1000000", "LIMIT", "-1"), ("MAXLEN", "1", "MINID", "1"), ("LIMIT", "1"), ("LIMIT", "0"), ("MAXLEN",)])
    count = lambda: r.choice([(), (), ("COUNT", str(r.choice([1, 2, 10, 100]))), ("COUNT", r.choice(["0", "-1", "x"]))])
    idle = lambda: r.choice(["0", "0", "0", "500000", "-1", "x"])
    several = lambda make: r.choice([lambda: (k(), make()), lambda: (k(), make()), lambda: ("s", "t", make(), make())])()
    return r.choice([
        *[lambda: ["XADD", k(), new_id(r), *fields()]] * 6,
        lambda: ["XADD", k(), *r.choice([(), ("NOMKSTREAM",)]), *r.choice([(), trim()]), r.choice([new_id(r), id(r), "0-0", "0-*", "x"]), *fields()],
        lambda: ["XADD", "s", *trim(), new_id(r), *fields()],
        lambda: ["XADD", k(), r.choice([new_id(r), "*"]), "x"],
        lambda: ["XLEN", k()],
        lambda: ["XRANGE", k(), interval(r), interval(r), *count()],
        lambda: ["XREVRANGE", k(), interval(r), interval(r), *count()],
        lambda: ["XRANGE", k(), "-", "+"],
        lambda: ["XREVRANGE", k(), "+", "-"],
        lambda: ["XDEL", k(), *ids(r)],
        lambda: ["XDEL", k(), *(f"{n}-0" for n in range(max(0, now[0] - r.choice([100, 1000])), now[0]))],
        lambda: ["XTRIM", k(), *trim()],
        lambda: ["XSETID", k(), r.choice([new_id(r), id(r)]), *r.choice([(), (), ("ENTRIESADDED", number(r)), ("MAXDELETEDID", id(r)), ("ENTRIESADDED", "1000", "MAXDELETEDID", id(r)), ("x",)])],
        lambda: ["XREAD", *count(), "STREAMS", *several(lambda: r.choice([id(r), id(r), "$"]))],
        lambda: ["XREAD", *r.choice([("COUNT",), ("NOACK",), ("GROUP", "g", "c"), ("BLOCK", "x"), ("x",)]), "STREAMS", k(), "0"],
        lambda: ["XREAD", "STREAMS", k(), "0", "0"],
        lambda: ["XGROUP", "CREATE", k(), g(), r.choice(["0", "$", id(r)]), *r.choice([(), ("MKSTREAM",), ("MKSTREAM",), ("ENTRIESREAD", number(r)), ("MKSTREAM", "ENTRIESREAD", "3"), ("x",)])],
        lambda: ["XGROUP", "CREATE", k(), g(), "0", "MKSTREAM"],
        lambda: ["XGROUP", "SETID", k(), g(), r.choice(["0", "$", id(r), "-", "+"]), *r.choice([(), (), ("ENTRIESREAD", number(r)), ("MKSTREAM",)])],
        lambda: ["XGROUP", "DESTROY", k(), g()] if r.random() < 0.5 else ["XLEN", k()],
        lambda: ["XGROUP", "CREATECONSUMER", k(), g(), c()],
        lambda: ["XGROUP", "DELCONSUMER", k(), g(), c()] if r.random() < 0.5 else ["XLEN", k()],
        lambda: ["XGROUP", r.choice(["CREATE", "x", "DESTROY"]), *r.choice([(), (k(),), (k(), g(), "0", "1", "2")])],
        *[lambda: ["XREADGROUP", "GROUP", g(), c(), *count(), *r.choice([(), (), ("NOACK",)]), "STREAMS", *several(lambda: ">")]] * 3,
        lambda: ["XREADGROUP", "GROUP", g(), c(), *count(), "STREAMS", *several(lambda: r.choice([id(r), "0", "$", ">"]))],
        lambda: ["XREADGROUP", "GROUP", g(), c(), "STREAMS", "s", "0", *r.choice([(), ("1",)])],
        lambda: ["XREADGROUP", r.choice(["GROUP", "GROUPS", "COUNT"]), g(), c(), "STREAMS", "s", ">"],
        lambda: ["XACK", k(), g(), *ids(r, 200)],
        lambda: ["XACK", k(), g(), *(f"{n}-0" for n in range(max(0, now[0] - 50), now[0]))],
        lambda: ["XPENDING", k(), g()],
        lambda: ["XPENDING", k(), g(), *r.choice([(), (), ("IDLE", idle())]), interval(r), interval(r), r.choice(["10", "1000", "0", "-1", "x"]), *r.choice([(), (c(),)])],
        lambda: ["XPENDING", k(), g(), "-", "+", "1000"],
        lambda: ["XPENDING", k(), g(), *r.choice([("-",), ("-", "+"), ("IDLE", "1", "-", "+"), ("IDLE", "0", "-", "+", "5", "alice", "x")])],
        lambda: ["XCLAIM", k(), g(), c(), idle(), *ids(r), *(word for option in r.sample([("FORCE",), ("JUSTID",), ("IDLE", "1000000"), ("TIME", "1000"), ("RETRYCOUNT", number(r)), ("LASTID", id(r)), ("TIME", "x"), ("IDLE", "-5"), ("x",)], r.choice([0, 1, 1, 2])) for word in option)],
        lambda: ["XAUTOCLAIM", k(), g(), c(), idle(), r.choice(["0", "-", "+", interval(r)]), *count(), *r.choice([(), ("JUSTID",), ("x",)])],
        lambda: ["XINFO", "STREAM", k(), *r.choice([(), (), ("FULL",), ("FULL",), ("FULL", "COUNT", number(r)), ("FULL", "x"), ("COUNT", "1", "2")])],
        lambda: ["XINFO", "GROUPS", k()],
        lambda: ["XINFO", "CONSUMERS", k(), g()],
        lambda: ["XINFO", r.choice(["x", "STREAM", "GROUPS"]), *r.choice([(), (k(), "x", "y")])],
        lambda: ["TYPE", "s"] if r.random() < 0.9 else ["DEL", "s"],
    ])()


def generic(r):
    k = key
    return r.choice([
        lambda: [r.choice(["DEL", "UNLINK", "EXISTS", "TOUCH"]), *(k(r) for _ in range(r.randrange(1, 3)))],
        lambda: ["TYPE", k(r)],
        lambda: ["TYPE", k(r)],
        lambda: ["OBJECT", "ENCODING", k(r)],
        lambda: ["MOVE", k(r), r.choice("01")],
        lambda: ["COPY", k(r), k(r), *r.choice([(), ("REPLACE",), ("REPLACE",), ("DB", "1"), ("DB", "1", "REPLACE")])],
        lambda: [r.choice(["RENAME", "RENAME", "RENAMENX"]), k(r), k(r)],
        lambda: ["EXPIRE", k(r), str(r.choice([LONG, 5 * LONG, -1])), *r.choice([(), ("NX",)])],
        # Never the same twice: which of two equal ones is greater depends on the millisecond.
        lambda: ["EXPIRE", k(r), str(LONG * r.randrange(2, 10_000)), "GT"],
        lambda: ["PEXPIREAT", k(r), "1"],
        lambda: ["PERSIST", k(r)],
        lambda: ["TTL", k(r)],
        lambda: ["SET", k(r), element(r), *r.choice([(), (), ("GET",), ("KEEPTTL",), ("XX",), ("NX",), ("EX", str(LONG))])],
        lambda: ["SET", k(r), element(r)],
        lambda: ["MSET", k(r), element(r), k(r), element(r)],
        lambda: ["GET", k(r)],
        lambda: ["MGET", k(r), k(r)],
        lambda: [r.choice(["GETSET", "APPEND", "SETNX"]), k(r), element(r)],
        lambda: [r.choice(["INCR", "STRLEN", "GETDEL", "GETEX", "PFCOUNT", "BITCOUNT", "DUMP"][:6]), k(r)],
        lambda: ["SETRANGE", k(r), r.choice(["0", "3"]), element(r)],
        lambda: ["GETRANGE", k(r), "0", "5"],
        lambda: ["SETEX", k(r), str(LONG), element(r)],
        lambda: ["DBSIZE"],
        lambda: ["KEYS", "*"],
        # A transaction's SCAN sees the keys of a file as they were before it.
        lambda: ["PING"] if "--file" in sys.argv else ["SCAN", "0", "COUNT", "10000", *r.choice([(), ("TYPE", r.choice(["string", "hash", "set", "list", "HASH", "zset", "stream"]))])],
        lambda: ["SELECT", r.choice(["0", "0", "0", "1"])],
        lambda: ["FLUSHALL"] if r.random() < 0.05 else ["FLUSHDB"] if r.random() < 0.05 else ["PING"],
        lambda: ["MULTI"],
        lambda: ["EXEC"],
        lambda: ["EXEC"],
        lambda: ["WATCH", k(r)],
        lambda: ["DISCARD"],
    ])()


KINDS = [hashes, sets, lists, sorted_sets, sorted_sets, geo, sorts, server, streams, streams]
KINDS = [kind for kind in KINDS if not ONLY or kind.__name__ in ONLY]


def command(r):
    return r.choice([*KINDS, *KINDS, generic])(r)


def sorted_by(reply, size):
    if isinstance(reply, dict):
        reply = [word for pair in reply["map"] for word in pair]
    if not isinstance(reply, list):
        return reply
    return sorted((tuple(reply[at : at + size]) for at in range(0, len(reply), size)), key=repr)


def pairs_in(reply):
    return reply["map"] if isinstance(reply, dict) else list(zip(reply[::2], reply[1::2]))


def is_old(time_ms):
    return isinstance(time_ms, int) and time_ms < (time.time() - 1000) * 1000


def without_times(info):
    """What XINFO says but for the times, and what is of Redis's trees."""
    found = []
    for name, value in pairs_in(info):
        if name in (b"groups", b"consumers") and isinstance(value, list):
            value = [without_times(part) for part in value]
        elif name == b"pending" and isinstance(value, list):
            value = [[*entry[:-2], is_old(entry[-2]), entry[-1]] for entry in value]
        elif name in (b"idle", b"seen-time"):
            value = "a time"
        # Redis 7.0 counts a lag from ENTRIESREAD even before the first entry, and later ones do not.
        if name == b"lag":
            value = value is None
        if not name.startswith(b"radix-tree"):
            found.append((name, value))
    return found


def comparable(words, reply):
    name = words[0].upper()
    if name == "XPENDING" and isinstance(reply, list) and len(words) > 3:
        return [[entry[0], entry[1], entry[2] > 10**6 - 10, entry[3]] for entry in reply]
    if name == "XINFO" and words[1] == "STREAM" and isinstance(reply, (list, dict)):
        return without_times(reply)
    if name == "XINFO" and isinstance(reply, list):
        return [without_times(part) for part in reply]
    if name in UNORDERED:
        return type(reply).__name__, sorted_by(reply, UNORDERED[name])
    if name in ("HSCAN", "SSCAN", "ZSCAN", "SCAN") and isinstance(reply, list):
        return reply[0], sorted_by(reply[1], 2 if name in ("HSCAN", "ZSCAN") else 1)
    # Redis stores the values of APPEND and similar commands in another way.
    if name == "OBJECT" and reply in (b"raw", b"embstr", b"int"):
        return b"raw"
    # After a restart the server reports the encoding of the current content; Redis keeps that of earlier content.
    if name == "OBJECT" and "--file" in sys.argv and reply in (b"listpack", b"skiplist", b"hashtable", b"quicklist"):
        return b"compact or not"
    if name.startswith("SORT") and isinstance(reply, list):
        by = words[words.index("BY") + 1] if "BY" in words[:-1] else None
        if by == "nosort" or by is not None and "ALPHA" in words:
            return sorted_by(reply, max(1, words.count("GET")))
        # Redis compares texts up to their first zero byte, so that texts with one may be in any order.
        if "ALPHA" in words and any(isinstance(part, bytes) and b"\0" in part for part in reply):
            return len(reply) if "LIMIT" in words else sorted_by(reply, max(1, words.count("GET")))
    # Of equal distances, Redis's COUNT leaves any.
    if name.startswith("GEO") and "COUNT" in words and isinstance(reply, list):
        return [entry[1] if "WITHDIST" in words else "any" for entry in reply]
    if name == "CONFIG" and isinstance(reply, str) and "save" in words:
        return reply[:20]
    if name in RANDOM:
        return len(reply) if isinstance(reply, list) else reply is None or isinstance(reply, bytes) or reply
    return reply


def equal(words, mine, theirs):
    name = words[0].upper()
    if name in ("TTL", "PTTL") and isinstance(mine, int) and isinstance(theirs, int) and min(mine, theirs) > 0:
        return abs(mine - theirs) < 100
    return comparable(words, mine) == comparable(words, theirs)


def main():
    redis = servers.redis()
    if redis is None:
        print("SKIPPED: comparison with redis-server, which is not installed (apt install redis-server)")
        return
    options, in_file = [], "--file" in sys.argv
    if in_file:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        options = ["--file", os.path.join(folder, "t.spt")]
    mine = servers.splitpoint(*options)
    r = random.Random(SEED)
    pairs_of = [[Connection(mine.port), Connection(redis.port)] for _ in range(2)]
    for connection in pairs_of[1]:
        connection.call("HELLO", "3")
    queues, history, total, restarts, kinds = [None, None], [], 0, 0, set()
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        which = r.randrange(2)
        commands = []
        for _ in range(r.choice([1, 2, 5, 20])):
            words = command(r)
            if words[0].upper().startswith("SORT"):
                # It converts the sorted set that it reads to the encoding of a large one; ours does with a long member.
                commands += [["ZADD", words[1], "0", b"long" * 20], ["ZREM", words[1], b"long" * 20]]
                # Redis's takes the range error of an earlier number for its own; a number within the range ends that.
                commands += [["ZADD", "absent", "XX", "1", "m"]]
            commands += [words]
        answers = [connection.pipeline(commands) for connection in pairs_of[which]]
        for words, got, expected in zip(commands, *answers):
            total += 1
            history = history[-30:] + [(which, words, got, expected)]
            name = words[0].upper()
            if name == "EXEC" and isinstance(got, list) and isinstance(expected, list):
                ok = len(got) == len(expected) == len(queues[which]) and all(map(equal, queues[which], got, expected))
                if not ok:
                    history += [("in EXEC", *entry) for entry in zip(queues[which], got, expected) if not equal(*entry)]
            else:
                ok = equal(words, got, expected)
            if not ok and "--survey" in sys.argv:
                if name == "EXEC" and isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
                    words, got, expected = next(entry for entry in zip(queues[which], got, expected) if not equal(*entry))
                kind = (name, len(words), re.sub(r"[0-9]+", "#", f"{got!r:.40} {expected!r:.40}"))
                if kind not in kinds:
                    print(f"  {words!r:.200}\n    splitpoint {got!r:.150}\n    redis      {expected!r:.150}", flush=True)
                kinds.add(kind)
                for pair in pairs_of:
                    for connection in pair:
                        connection.pipeline([["DISCARD"], ["UNWATCH"], ["SELECT", "0"], ["FLUSHALL"]])
                queues = [None, None]
                break
            if not ok:
                print(f"collections: seed {SEED}, command {total}: replies differ. The last commands:")
                for entry in history[-15:]:
                    print("  connection {}: {:.200}\n    splitpoint {:.300}\n    redis      {:.300}".format(entry[0], *map(repr, entry[1:])))
                sys.exit(1)
            if got == "+QUEUED" and queues[which] is not None:
                queues[which].append(words)
            elif name == "MULTI" and got == "+OK":
                queues[which] = []
            if name in ("EXEC", "DISCARD"):
                queues[which] = None
        if in_file and queues == [None, None] and r.random() < 0.005:
            # The file has what was answered, whether the server exits or dies.
            mine.kill() if r.random() < 0.5 else mine.stop()
            mine = servers.splitpoint(*options)
            restarts += 1
            for connection, pair in enumerate(pairs_of):
                pair[0] = Connection(mine.port)
                pair[1].call("UNWATCH")
                pair[1].call("SELECT", "0")
                if connection == 1:
                    pair[0].call("HELLO", "3")
    print(f"collections: {total} replies are equal to redis's, {restarts} restarts (seed {SEED})")


main()
