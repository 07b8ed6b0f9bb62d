#!/usr/bin/env python3
"""kill -9 under load, restart, compare: nothing that was answered is lost, and what belongs together stays together.

    crash.py [ROUNDS] [SEED]

Several connections append numbered records to their own keys, in pipelines; set pairs of keys in transactions; and set
keys with lifetimes. After the kill each key has at least what was acknowledged and at most what was sent, in order; both
keys of a transaction have the same number; a key with a lifetime still has it.
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
SCRIPT = "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])"
FLUSHING = """redis.call('SELECT', ARGV[1]) redis.call('SET', 'first', ARGV[2]) redis.call('FLUSHDB')
redis.call('SET', 'second', ARGV[2]) redis.call('SET', 'third', ARGV[2])"""


class Writer(threading.Thread):
    """What it sent, and what of it was answered."""

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
            else:
                sent = state["sent"].get(key, 0) + 1
                state["sent"][key] = sent
                commands.append(("APPEND", key, b"%08d" % sent))
                effects.append(("append", key, sent))
        connection.send(*commands)
        for effect in effects:
            reply = connection.reply()
            if isinstance(reply, str) and reply.startswith("-"):
                raise SystemExit(f"unexpected {reply}")
            if effect and effect[0] == "append":
                assert reply == effect[2] * RECORD, (effect, reply)
                state["acknowledged"][effect[1]] = effect[2]
            elif effect:
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
            # What was sent and not answered may be there; from here on it is.
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
    expected = sum(1 for s in states for n in s["sent"].values() if n) + sum(2 * bool(s["pair"][0]) + 2 * bool(s["script"][0]) + bool(s["timed"][0]) for s in states)
    assert connection.call("DBSIZE") == expected, (connection.call("DBSIZE"), expected)
    return records


def main():
    for durability in ["os", "sync"]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "crash.spt")
            states = [{"sent": {}, "acknowledged": {}, "pair": [0, 0], "script": [0, 0], "flush": [0, 0], "timed": [0, 0]} for _ in range(WRITERS)]
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
