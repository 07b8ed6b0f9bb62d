#!/usr/bin/env python3
"""Processor time of the server, and its futex calls, per command: Splitpoint and Redis in turns, in memory and in a file.

    processor_time.py [--rounds 3] [--places memory,file] [--commands SET,GET,...] [NAME=PROGRAM ...]

NAME=PROGRAM is a server of ours, such as `before=target/before/splitpoint serve`; by default SPLITPOINT_SERVE, or what
`make install` builds. redis-benchmark sends single requests from 20 connections, and pipelines of 16 and 100 from 8, with
20,000 random keys and values of 16 bytes; hashes have 5 fields. A name with -one is of one key: fields and members are
of 20,000, lists and streams grow. Redis writes its AOF once a second. Processor time is that of all threads
(schedstat), so other work on the machine changes it less than rates. perf counts futex calls, of the threads that the
server has when the load begins.
"""

import argparse
import os
import shlex
import signal
import socket
import statistics
import subprocess
import tempfile
import time

RANDOM, VALUE = "__rand_int__", "x" * 16
FIELDS = [word for number in range(5) for word in (f"field{number}", VALUE)]
# What is stored first, and what is measured.
COMMANDS = {
    "SET": (None, ["SET", "k:" + RANDOM, VALUE]),
    "GET": (["SET", "k:" + RANDOM, VALUE], ["GET", "k:" + RANDOM]),
    "HSET": (["HSET", "h:" + RANDOM, *FIELDS], ["HSET", "h:" + RANDOM, "field3", VALUE]),
    "LPUSH": (None, ["LPUSH", "l:" + RANDOM, VALUE]),
    "SADD": (None, ["SADD", "s:" + RANDOM, "m:" + RANDOM]),
    "ZADD": (None, ["ZADD", "z:" + RANDOM, RANDOM, "m:" + RANDOM]),
    "XADD": (None, ["XADD", "x:" + RANDOM, "*", "f", VALUE]),
    "HSET-one": (["HSET", "h", "f:" + RANDOM, VALUE], ["HSET", "h", "f:" + RANDOM, VALUE]),
    "LPUSH-one": (None, ["LPUSH", "l", VALUE]),
    "SADD-one": (None, ["SADD", "s", "m:" + RANDOM]),
    "ZADD-one": (None, ["ZADD", "z", RANDOM, "m:" + RANDOM]),
    "XADD-one": (None, ["XADD", "x", "*", "f", VALUE]),
}
REQUESTS = {1: 30_000, 16: 200_000, 100: 400_000}
PORT = 7655


def processor_seconds(process):
    folder, nanos = f"/proc/{process.pid}/task", 0
    for thread in os.listdir(folder):
        try:
            with open(f"{folder}/{thread}/schedstat", encoding="ascii") as figures:
                nanos += int(figures.read().split()[0])
        except OSError:
            pass  # it has ended
    return nanos / 1e9


def start(program, place, folder):
    if program is None:
        aof = ["--appendonly", "yes"] if place == "file" else []
        command = ["redis-server", "--port", str(PORT), "--bind", "127.0.0.1", "--save", "", "--dir", folder, *aof]
    else:
        file = ["--file", folder + "/table"] if place == "file" else []
        command = [*shlex.split(program), "--resp", f"127.0.0.1:{PORT}", *file]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{command} does not start")


def send(command, count, pipeline):
    clients = "20" if pipeline == 1 else "8"
    options = ["-p", str(PORT), "-n", str(count), "-P", str(pipeline), "-c", clients, "-r", "20000", "-q"]
    subprocess.run(["redis-benchmark", *options, *command], check=True, stdout=subprocess.DEVNULL)


def measured(process, command, pipeline, folder):
    """Microseconds and futex calls per command."""
    output, count = folder + "/perf", REQUESTS[pipeline]
    perf = ["perf", "stat", "-x,", "-o", output, "-e", "syscalls:sys_enter_futex", "-p", str(process.pid)]
    counting = subprocess.Popen(perf, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.3)  # perf attaches; what it misses is not in the time
    before = processor_seconds(process)
    send(command, count, pipeline)
    micros = (processor_seconds(process) - before) * 1e6 / count
    counting.send_signal(signal.SIGINT)
    counting.wait()
    with open(output, encoding="utf-8") as lines:
        calls = [line.split(",")[0] for line in lines if "futex" in line]
    return micros, float(calls[0]) / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--places", default="memory,file")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("servers", nargs="*")
    options = parser.parse_args()
    ours = options.servers or ["splitpoint=" + os.environ.get("SPLITPOINT_SERVE", "target/packaged/splitpoint serve")]
    servers = [*(server.split("=", 1) for server in ours), ("redis", None)]
    columns = [(place, name) for place in options.places.split(",") for name, _ in servers]
    found = {}
    for number in range(options.rounds):
        for place in options.places.split(","):
            for name, program in servers if number % 2 == 0 else servers[::-1]:
                for command in options.commands.split(","):
                    stored, words = COMMANDS[command]
                    with tempfile.TemporaryDirectory() as folder:
                        process = start(program, place, folder)
                        try:
                            if stored:
                                send(stored, 60_000, 50)
                            for pipeline in REQUESTS:
                                figures = measured(process, words, pipeline, folder)
                                found.setdefault((command, pipeline, place, name), []).append(figures)
                        finally:
                            process.kill()
                            process.wait()
    print("| us (futex calls) | `-P` | " + " | ".join(" ".join(column) for column in columns) + " |")
    print("|---|---:|" + "---:|" * len(columns))
    for command in options.commands.split(","):
        for pipeline in REQUESTS:
            cells = (zip(*found[command, pipeline, *column]) for column in columns)
            medians = ([statistics.median(figures) for figures in cell] for cell in cells)
            print(f"| {command} | {pipeline} | " + " | ".join(f"{us:.2f} ({calls:.2f})" for us, calls in medians) + " |")


if __name__ == "__main__":
    main()
