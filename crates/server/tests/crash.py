#!/usr/bin/env python3
"""kill -9 under load, restart, compare: no acknowledged change is lost, and changes that belong together stay together.

    crash.py [ROUNDS] [SEED]

Several connections append numbered records to their own keys, in pipelines; set pairs of keys in transactions; set
keys with lifetimes; give fields of hashes lifetimes and remove them; and change hashes, lists, sets, sorted sets and streams of
thousands of elements. After the kill each key has at least what was acknowledged and at most what was sent, in order; both
keys of a transaction have the same number; a key or field with a lifetime still has it; a command on a collection is there
as a whole.
"""

import os
import random
import sys
import tempfile
import threading
import time

import servers
from resp import Connection

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
WRITERS, KEYS = 4, 50
RECORD = 8
# Hashes whose fields have lifetimes: by name, the number of fields. One is stored as a single value, the other is divided.
LIVES = {"few": 5, "many": 1000}
BASE_MS = 4 * 10**12  # the year 2096
COUNTED = ("hash", "list", "set", "zset", "stream", *LIVES)
SCRIPT = "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])"
FLUSHING = """redis.call('SELECT', ARGV[1]) redis.call('SET', 'first', ARGV[2]) redis.call('FLUSHDB')
redis.call('SET', 'second', ARGV[2]) redis.call('SET', 'third', ARGV[2])"""


def change_of_lifetime(key, n, fields):
    """The n-th: a field is set with a lifetime, gets another one, and loses it; then the next field."""
    field = b"field:%d" % ((n - 1) // 3 % fields)
    return [
        ("HPERSIST", key, "FIELDS", 1, field),
        ("HSETEX", key, "PXAT", BASE_MS + n, "FIELDS", 2, "last", n, field, n),
        ("HPEXPIREAT", key, BASE_MS + n, "FIELDS", 1, field),
    ][n % 3]


class Writer(threading.Thread):
    """The commands that it sent, and which of them were acknowledged."""

    def __init__(self, port, number, state):
        super().__init__()
        self.port, self.number, self.state = port, number, state

    def run(self):
        r = random.Random(SEED + self.number)
        try:
            connection = Connection(self.port)
            while True:
                self.step(connection, r)
        except (ConnectionError, OSError):
            pass

    def step(self, connection, r):
        state = self.state
        commands, effects = [], []
        for _ in range(r.choice([1, 10, 200])):
            key = b"w%d:%d" % (self.number, r.randrange(KEYS))
            kind = r.randrange(20)
            if kind == 0:
                state["pair"][0] += 1
                n = state["pair"][0]
                commands += [("MULTI",), ("SET", b"pair-a%d" % self.number, n), ("APPEND", b"pair-b%d" % self.number, b"%08d" % n), ("EXEC",)]
                effects += [None, None, None, ("pair", n)]
            elif kind == 2:
                state["script"][0] += 1
                n = state["script"][0]
                commands.append(("EVAL", SCRIPT, 2, b"script-a%d" % self.number, b"script-b%d" % self.number))
                effects.append(("script", n))
            elif kind == 3:
                # A database of its own.
                state["flush"][0] += 1
                n = state["flush"][0]
                commands.append(("EVAL", FLUSHING, 0, self.number + 1, n))
                effects.append(("flush", n))
            elif kind == 1:
                state["timed"][0] += 1
                n = state["timed"][0]
                commands.append(("SET", b"timed%d" % self.number, n, "EX", 100_000 + n))
                effects.append(("timed", n))
            elif kind == 5:
                n = state["hash"][0] = state["hash"][0] + 1
                commands.append(("HSET", b"hash%d" % self.number, "a", n, b"field:%d" % (n % 3000), b"%01000d" % n if n % 7 == 0 else n, "b", n))
                effects.append(("hash", n))
            elif kind == 6:
                n = state["list"][0] = state["list"][0] + 1
                commands.append(("RPUSH", b"list%d" % self.number, n))
                effects.append(("list", n))
                if n % 3 == 0:
                    commands.append(("LPOP", b"list%d" % self.number))
                    effects.append(None)
            elif kind == 4:
                n = state["set"][0] = state["set"][0] + 1
                name = b"set%d" % self.number
                commands += [("MULTI",), ("DEL", name), ("SADD", name, *(b"%d:%d" % (n, member) for member in range(300))), ("EXEC",)]
                effects += [None, None, None, ("set", n)]
            elif kind == 7:
                n = state["zset"][0] = state["zset"][0] + 1
                commands.append(("ZADD", b"zset%d" % self.number, n, "a", -n, b"member:%d" % (n % 3000), n, "b"))
                effects.append(("zset", n))
            elif kind == 8:
                n = state["stream"][0] = state["stream"][0] + 1
                name = b"stream%d" % self.number
                commands.append(("XADD", name, "MAXLEN", 2000, b"%d-0" % n, "n", n, b"field%d" % (n % 3), b"%01000d" % n if n % 7 == 0 else n))
                effects.append(("stream", n))
                if n == 1:
                    commands.append(("XGROUP", "CREATE", name, "g", 0))
                    effects.append(None)
                if n % 3 == 0:
                    commands += [("XREADGROUP", "GROUP", "g", b"c%d" % (n % 2), "COUNT", 4, "STREAMS", name, ">"), ("XACK", name, "g", *(b"%d-0" % at for at in range(n - 5, n - 3)))]
                    effects += [None, None]
            elif kind in (9, 10):
                name = list(LIVES)[kind - 9]
                n = state[name][0] = state[name][0] + 1
                commands.append(change_of_lifetime(b"%s%d" % (name.encode(), self.number), n, LIVES[name]))
                effects.append((name, n))
            else:
                sent = state["sent"].get(key, 0) + 1
                state["sent"][key] = sent
                commands.append(("APPEND", key, b"%08d" % sent))
                effects.append(("append", key, sent))
        connection.send(*commands)
        for effect in effects:
            reply = connection.reply()
            # The kill came between the two: the stream has no group.
            if isinstance(reply, str) and reply.startswith("-") and not reply.startswith("-NOGROUP"):
                raise SystemExit(f"unexpected {reply}")
            if effect and effect[0] == "append":
                assert reply == effect[2] * RECORD, (effect, reply)
                state["acknowledged"][effect[1]] = effect[2]
            elif effect:
                assert effect[0] not in LIVES or reply in (1, [1]), (effect, reply)
                state[effect[0]][1] = effect[1]


def check(port, states):
    connection = Connection(port)
    records = 0
    for number, state in enumerate(states):
        for key, sent in state["sent"].items():
            value = connection.call("GET", key) or b""
            assert len(value) % RECORD == 0, (key, len(value))
            present = len(value) // RECORD
            assert value == b"".join(b"%08d" % n for n in range(1, present + 1)), key
            acknowledged = state["acknowledged"].get(key, 0)
            assert acknowledged <= present <= sent, f"{key}: acknowledged {acknowledged}, present {present}, sent {sent}"
            # Unacknowledged commands may have been executed; from here on they count if they were.
            state["sent"][key] = state["acknowledged"][key] = present
            records += present
        a = int(connection.call("GET", b"pair-a%d" % number) or 0)
        b = connection.call("GET", b"pair-b%d" % number) or b""
        assert int(b[-8:] or 0) == a, f"half of a transaction: {a}, {b[-8:]}"
        assert len(b) == 8 * a or state["pair"][0] > 0, "transactions missing"
        assert state["pair"][1] <= a <= state["pair"][0], f"pair {state['pair']}: {a}"
        state["pair"] = [a, a]
        a, b = (int(connection.call("GET", b"script-%s%d" % (of, number)) or 0) for of in (b"a", b"b"))
        assert a == b, f"half of a script: {a}, {b}"
        assert state["script"][1] <= a <= state["script"][0], f"script {state['script']}: {a}"
        state["script"] = [a, a]
        connection.call("SELECT", number + 1)
        a, b = (int(connection.call("GET", key) or 0) for key in ("second", "third"))
        assert a == b and connection.call("DBSIZE") == 2 * bool(a), f"half of a flush: {a}, {b}"
        assert state["flush"][1] <= a <= state["flush"][0], f"flush {state['flush']}: {a}"
        state["flush"] = [a, a]
        connection.call("SELECT", 0)
        n = int(connection.call("GET", b"timed%d" % number) or 0)
        ttl = connection.call("TTL", b"timed%d" % number)
        assert state["timed"][1] <= n <= state["timed"][0], f"timed {state['timed']}: {n}"
        assert n == 0 or 100_000 + n - 300 < ttl <= 100_000 + n, f"lifetime of {n}: {ttl}"
        state["timed"] = [n, n]
        state["hash"] = check_hash(connection, b"hash%d" % number, *state["hash"])
        state["list"] = check_list(connection, b"list%d" % number, *state["list"])
        state["set"] = check_set(connection, b"set%d" % number, *state["set"])
        state["zset"] = check_sorted_set(connection, b"zset%d" % number, *state["zset"])
        state["stream"] = check_stream(connection, b"stream%d" % number, *state["stream"])
        for name, fields in LIVES.items():
            state[name] = check_lifetimes(connection, b"%s%d" % (name.encode(), number), fields, *state[name])
    expected = sum(1 for s in states for n in s["sent"].values() if n)
    expected += sum(2 * bool(s["pair"][0]) + 2 * bool(s["script"][0]) + sum(bool(s[name][0]) for name in ("timed", *COUNTED)) for s in states)
    assert connection.call("DBSIZE") == expected, (connection.call("DBSIZE"), expected)
    return records


def check_hash(connection, key, sent, acknowledged):
    words = connection.call("HGETALL", key)
    fields = dict(zip(words[::2], words[1::2]))
    n = int(fields.get(b"a", 0))
    assert acknowledged <= n <= sent and n == int(fields.get(b"b", 0)), f"half of a command: {n}, {fields.get(b'b')}"
    assert len(words) == 2 * len(fields) == 2 * connection.call("HLEN", key)
    assert len(fields) == (2 + min(n, 3000) if n else 0), (n, len(fields))
    for at in range(max(1, n - 2999), n + 1):
        assert int(fields[b"field:%d" % (at % 3000)]) == at
        assert at % 50 or connection.call("HGET", key, b"field:%d" % (at % 3000)) == fields[b"field:%d" % (at % 3000)]
    return [n, n]


def check_lifetimes(connection, key, count, sent, acknowledged):
    words = connection.call("HGETALL", key)
    fields = dict(zip(words[::2], words[1::2]))
    # The number of the last HSETEX; the lifetime of its field says which change was the last.
    set_last = int(fields.pop(b"last", 0))
    if not set_last:
        assert acknowledged == 0 and not words, f"{key}: acknowledged {acknowledged}, absent"
        return [0, 0]
    field = lambda first: b"field:%d" % ((first - 1) // 3 % count)
    present = range(max(1, set_last - 3 * (count - 1)), set_last + 1, 3)
    assert fields == {field(first): b"%d" % first for first in present}, key
    asked = ["last", field(set_last), *map(field, present[:-1])]
    of_set, last, *others = connection.call("HPEXPIRETIME", key, "FIELDS", len(asked), *asked)
    assert of_set == BASE_MS + set_last, f"{key}: set by {set_last}: {of_set}"
    assert set(others) <= {-1}, f"{key}: fields that were persisted have lifetimes: {others}"
    n = set_last + 2 if last == -1 else last - BASE_MS
    assert set_last <= n <= set_last + 2 and acknowledged <= n <= sent, f"{key}: set by {set_last}, acknowledged {acknowledged}, present {n}, sent {sent}"
    return [n, n]


def check_list(connection, key, sent, acknowledged):
    elements = list(map(int, connection.call("LRANGE", key, "0", "-1")))
    n = elements[-1] if elements else 0
    assert acknowledged <= n <= sent, f"list {sent}, {acknowledged}: {n}"
    assert elements == list(range(n - len(elements) + 1, n + 1)) and len(elements) == connection.call("LLEN", key)
    return [n, n]


def check_set(connection, key, sent, acknowledged):
    members = connection.call("SMEMBERS", key)
    numbers = {int(member.split(b":")[0]) for member in members}
    n = numbers.pop() if numbers else 0
    assert not numbers and acknowledged <= n <= sent and len(set(members)) == (300 if n else 0) == connection.call("SCARD", key)
    return [n, n]


def check_sorted_set(connection, key, sent, acknowledged):
    words = connection.call("ZRANGE", key, "0", "-1", "WITHSCORES")
    scores = {member: int(score) for member, score in zip(words[::2], words[1::2])}
    n = scores.get(b"a", 0)
    assert acknowledged <= n <= sent and n == scores.get(b"b", 0), f"half of a command: {n}, {scores.get(b'b')}"
    assert list(scores.items()) == sorted(scores.items(), key=lambda item: (item[1], item[0]))
    assert len(scores) == connection.call("ZCARD", key) == (2 + min(n, 3000) if n else 0)
    for rank, at in enumerate(range(n, max(0, n - 3000), -1)):
        member = b"member:%d" % (at % 3000)
        assert scores[member] == -at
        assert at % 50 or (connection.call("ZSCORE", key, member), connection.call("ZRANK", key, member)) == (b"%d" % -at, rank)
    return [n, n]


def check_stream(connection, key, sent, acknowledged):
    entries = connection.call("XRANGE", key, "-", "+")
    n = int(entries[-1][0].split(b"-")[0]) if entries else 0
    assert acknowledged <= n <= sent, f"stream {sent}, {acknowledged}: {n}"
    assert len(entries) == connection.call("XLEN", key) == min(n, 2000)
    for at, (id, fields) in zip(range(n - len(entries) + 1, n + 1), entries):
        assert id == b"%d-0" % at and fields[:3] == [b"n", b"%d" % at, b"field%d" % (at % 3)] and int(fields[3]) == at, (at, id)
    groups = connection.call("XINFO", "GROUPS", key) if n else []
    if groups:
        # Both indexes of pending entries have the same ones.
        pending = connection.call("XPENDING", key, "g", "-", "+", 10**6)
        by_consumer = [entry for name in (b"c0", b"c1") for entry in connection.call("XPENDING", key, "g", "-", "+", 10**6, name)]
        assert sorted(entry[:2] for entry in pending) == sorted(entry[:2] for entry in by_consumer)
        assert len(pending) == connection.call("XPENDING", key, "g")[0]
        delivered = int(groups[0][7].split(b"-")[0])
        assert all(int(entry[0].split(b"-")[0]) <= delivered <= n for entry in pending)
    return [n, n]


def main():
    for durability in ["os", "sync"]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "crash.spt")
            states = [{"sent": {}, "acknowledged": {}, "pair": [0, 0], "script": [0, 0], "flush": [0, 0], "timed": [0, 0]} | {name: [0, 0] for name in COUNTED} for _ in range(WRITERS)]
            r = random.Random(SEED)
            for _ in range(ROUNDS):
                server = servers.splitpoint("--file", path, "--durability", durability, "--threads", 2)
                records = check(server.port, states)
                writers = [Writer(server.port, number, states[number]) for number in range(WRITERS)]
                [writer.start() for writer in writers]
                time.sleep(r.uniform(0.3, 1.5))
                if r.random() < 0.7:
                    saver = Connection(server.port)
                    saver.send(("BGSAVE",))
                    time.sleep(r.uniform(0, 0.05))
                server.kill()
                [writer.join() for writer in writers]
            server = servers.splitpoint("--file", path)
            records = check(server.port, states)
            assert server.stop() == 0
            print(f"crash: {durability}: {ROUNDS} kills, {records} acknowledged records are there (seed {SEED})")


main()
