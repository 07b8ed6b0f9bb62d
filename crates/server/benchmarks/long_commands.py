#!/usr/bin/env python3
"""Processor time of long commands, and the longest wait of another client during each: Splitpoint and Redis, in memory.

    long_commands.py [--rounds 3] [NAME=PROGRAM ...]

NAME=PROGRAM is a build of our server, started as in processor_time.py. Another client sends a GET each half
millisecond. The figures are medians of several rounds. Not here: short commands (processor_time.py).
"""

import argparse
import os
import socket
import statistics
import tempfile
import threading
import time

from processor_time import PORT, processor_seconds, start

MEBIBYTE = 1 << 20
MEMBERS = [str(number * 7919 % 1_000_003) for number in range(300_000)]
# What is stored: command, key, and arguments in portions. What is measured comes after it.
STORED = [
    ("RPUSH", "list", [f"e{number % 2}" for number in range(1_000_000)]),
    ("SADD", "set", MEMBERS),
    ("ZADD", "zset", [word for member in MEMBERS for word in (member, "m" + member)]),
]
MEASURED = [
    ("COPY of 64 MiB", ["COPY", "long", "copy"]),
    ("COPY of 64 MiB, REPLACE", ["COPY", "long", "copy", "REPLACE"]),
    ("RENAME of 64 MiB", ["RENAME", "copy", "other"]),
    ("MOVE of 64 MiB", ["MOVE", "other", "1"]),
    ("LREM, 500,000 of a million", ["LREM", "list", "0", "e1"]),
    ("SORT ... STORE, 300,000", ["SORT", "set", "STORE", "sorted"]),
    ("SORT ... ALPHA STORE, 300,000", ["SORT", "set", "ALPHA", "STORE", "sorted"]),
    ("SUNIONSTORE, 300,000", ["SUNIONSTORE", "union", "set"]),
    ("ZRANGESTORE, 300,000", ["ZRANGESTORE", "range", "zset", "0", "-1"]),
    ("ZREMRANGEBYRANK, 290,000 of 300,000", ["ZREMRANGEBYRANK", "zset", "0", "289999"]),
]


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        self.replies = self.socket.makefile("rb")

    def call(self, *words):
        bulks = [word if isinstance(word, bytes) else word.encode() for word in words]
        lines = [b"*%d\r\n" % len(bulks), *(b"$%d\r\n%s\r\n" % (len(bulk), bulk) for bulk in bulks)]
        self.socket.sendall(b"".join(lines))
        reply = self.replies.readline()
        if reply[:1] == b"$":
            self.replies.read(int(reply[1:]) + 2)
        if reply[:1] in b"-*":
            raise SystemExit(f"{words[0]}: {reply}")


def measured(process, client, words):
    """Milliseconds of processor time, and of the longest wait of another client."""
    other, ended, waits = Client(), threading.Event(), [0.0]

    def wait():
        while not ended.is_set():
            before = time.perf_counter()
            other.call("GET", "short")
            waits.append(time.perf_counter() - before)
            time.sleep(0.0005)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    waits.clear()
    before = processor_seconds(process)
    client.call(*words)
    used = processor_seconds(process) - before
    time.sleep(0.01)
    ended.set()
    thread.join()
    return used * 1e3, max(waits) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("servers", nargs="*")
    options = parser.parse_args()
    ours = options.servers or ["splitpoint=" + os.environ.get("SPLITPOINT_SERVE", "target/packaged/splitpoint serve")]
    servers = [*(server.split("=", 1) for server in ours), ("redis", None)]
    found = {}
    for number in range(options.rounds):
        for name, program in servers if number % 2 == 0 else servers[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                process = start(program, "memory", folder)
                try:
                    client = Client()
                    client.call("SET", "short", "x")
                    client.call("SET", "long", b"x" * (64 * MEBIBYTE))
                    for command, key, words in STORED:
                        for first in range(0, len(words), 2000):
                            client.call(command, key, *words[first : first + 2000])
                    for what, words in MEASURED:
                        found.setdefault((what, name), []).append(measured(process, client, words))
                finally:
                    process.kill()
                    process.wait()
    print("| ms (longest wait of another client) | " + " | ".join(name for name, _ in servers) + " |")
    print("|---|" + "---:|" * len(servers))
    for what, _ in MEASURED:
        cells = ([statistics.median(figures) for figures in zip(*found[what, name])] for name, _ in servers)
        print(f"| {what} | " + " | ".join(f"{used:.1f} ({wait:.1f})" for used, wait in cells) + " |")


if __name__ == "__main__":
    main()
