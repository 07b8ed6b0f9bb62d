#!/usr/bin/env python3
"""The server beside Redis and memcached: the tables of results/server.md. `make bench-server` calls it.

    measure.py [--short] [--rounds N] [PART ...]

    rates      redis-benchmark: SET and GET with 50 connections, without pipelines and with pipelines of 16 and 100
    memcached  get and set of memcached clients with 50 connections, and gets of 100 keys
    appends    26.5 million appends to 9.75 million keys in pipelines of 10,000, and memory per key; BGSAVE in the middle
    crash      the same appends with --durability os, kill -9 during BGSAVE, restart: every acknowledged append is there
    latency    the time of requests at a fixed rate: at rest, while the table grows, during BGSAVE

All parts by default. The server has one core and its client another; the servers take turns, round by round, and the tables
have medians. What is not installed is skipped, and the script says so. --short takes a minute; its figures mean nothing.

The client is crates/bench/src/bin/server_load. Where its core was busy for more than 95 % of the time and the server's was
not, the row is marked: the client was the limit.
"""

import argparse
import csv
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests"))
import servers  # noqa: E402
from resp import Connection  # noqa: E402

PARTS = ["rates", "memcached", "appends", "crash", "latency"]
LOAD = os.environ.get("SERVER_LOAD", f"{servers.BUILT}/release/server_load")
# Requests per second whose time is measured: a quarter of what the servers can do.
RATE = 20_000
# A side that works for more than this share of the time is the limit.
BUSY = 0.95


def skipped(what, package):
    print(f"SKIPPED: {what} (apt install {package})", flush=True)


def note(text):
    print(text, file=sys.stderr, flush=True)


class Cores:
    """The server's core and the client's: the first and the last that this process may use."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        self.server, self.client = cores[0], cores[-1]
        if self.server == self.client:
            print("WARNING: there is one core; server and client share it, so the figures mean little")
        os.sched_setaffinity(0, {self.client})

    def start(self, name, port, command):
        return servers.Server(["taskset", "-c", str(self.server), *map(str, command)], port, name)


class Measured:
    """The servers of a measurement. Each method starts one, or returns None where it is not installed."""

    def __init__(self, cores, folder):
        self.cores, self.folder, self.count = cores, folder, 0

    def place(self):
        self.count += 1
        return tempfile.mkdtemp(prefix=f"{self.count}-", dir=self.folder)

    def splitpoint(self, *options):
        port = servers.free_port()
        return self.cores.start("splitpoint", port, [*servers.PROGRAM, "--resp", f"127.0.0.1:{port}", *options])

    def splitpoint_for_memcached(self):
        port, other = servers.free_port(), servers.free_port()
        command = [*servers.PROGRAM, "--resp", f"127.0.0.1:{other}", "--memcached", f"127.0.0.1:{port}"]
        return self.cores.start("splitpoint", port, command)

    def redis(self):
        port, program = servers.free_port(), shutil.which("redis-server")
        command = [program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", self.place()]
        return self.cores.start("redis-server", port, command) if program else None

    def memcached(self):
        port, program = servers.free_port(), shutil.which("memcached")
        # As many threads as its core has; memory for all keys.
        command = [program, "-l", "127.0.0.1", "-p", port, "-t", 1, "-m", 4096, "-u", "nobody"]
        return self.cores.start("memcached", port, command) if program else None


def load(part, server, *options):
    """What server_load measured."""
    command = [LOAD, part, "--port", str(server.port), "--pid", str(server.process.pid), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def median(rows, name):
    return statistics.median(row[name] for row in rows)


def count(number):
    """Three digits: 87 K, 1.24 M."""
    for unit, size in (("M", 1e6), ("K", 1e3)):
        if number >= size:
            return f"{number / size:.{2 if number < 10 * size else 1 if number < 100 * size else 0}f} {unit}"
    return f"{number:.0f}"


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def in_turns(rounds, sides, measure):
    """Rows of each side: `measure(side)` in turns, as the machine's speed changes over minutes."""
    rows = {name: [] for name in sides}
    for number in range(rounds):
        for name, side in sides.items():
            note(f"  round {number + 1}: {name}")
            rows[name].append(measure(side))
    return rows


def rates(measured, args):
    program = shutil.which("redis-benchmark")
    if not program:
        return skipped("rates, as there is no redis-benchmark", "redis-tools")
    sides = {"Redis": measured.redis(), "Splitpoint": measured.splitpoint()}
    if not sides["Redis"]:
        skipped("Redis's rates, as there is no redis-server", "redis-server")
    sides = {name: side for name, side in sides.items() if side}
    for side in sides.values():
        load("rate", side, "--operation", "set", "--in-order", "--pipeline", 100, "--keys", args.keys, "--requests", args.keys)
    rows = []
    for pipeline, requests in ((1, 600_000), (16, 5_000_000), (100, 10_000_000)):
        for name in ("set", "get"):

            def benchmark(side):
                command = [program, "-p", side.port, "-t", name, "-P", pipeline, "-n", requests // args.divisor]
                command += ["-r", args.keys, "-d", 16, "-c", 50, "--csv"]
                done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
                [row] = csv.DictReader(io.StringIO(done.stdout))
                return {"rate": float(row["rps"])}

            found = in_turns(args.rounds, sides, benchmark)
            speeds = {side: median(found[side], "rate") for side in sides}
            row = [name.upper() + (f", `-P {pipeline}`" if pipeline > 1 else "")]
            row += [count(speeds[side]) for side in sides]
            rows.append(row + ratio(speeds, "Redis"))
    table(["requests per second", *sides, ""], rows)
    # Without pipelines both wait for the sockets: what a request costs the server is the processor time it takes.
    rows = []
    for operation in ("set", "get"):
        options = ["--operation", operation, "--keys", args.keys, "--requests", 600_000 // args.divisor]
        found = in_turns(args.rounds, sides, lambda side: load("rate", side, *options))
        costs = {side: median(found[side], "server_us_per_request") for side in sides}
        row = [operation.upper(), *(f"{costs[side]:.1f} us" for side in sides)]
        rows.append(row + ratio({side: 1 / max(cost, 1e-9) for side, cost in costs.items()}, "Redis"))
    table(["processor time per request, 50 connections", *sides, ""], rows)
    [side.stop() for side in sides.values()]


def ratio(speeds, other):
    return [f"{speeds['Splitpoint'] / speeds[other]:.2f}x"] if other in speeds else [""]


def memcached(measured, args):
    sides = {"memcached": measured.memcached(), "Splitpoint": measured.splitpoint_for_memcached()}
    if not sides["memcached"]:
        skipped("memcached's rates, as there is no memcached", "memcached")
    sides = {name: side for name, side in sides.items() if side}
    common = ["--protocol", "memcached", "--keys", args.keys]
    for side in sides.values():
        load("rate", side, *common, "--operation", "set", "--in-order", "--pipeline", 100, "--requests", args.keys)
    rows = []
    loads = [
        ("set", 600_000, ["--operation", "set"]),
        ("get", 600_000, ["--operation", "get"]),
        ("get, 16 in a pipeline", 5_000_000, ["--operation", "get", "--pipeline", 16]),
        ("set, 16 in a pipeline", 5_000_000, ["--operation", "set", "--pipeline", 16]),
        ("get of 100 keys: keys", 60_000, ["--operation", "get", "--keys-per-request", 100]),
    ]
    for name, requests, options in loads:
        all_options = [*common, *options, "--requests", requests // args.divisor]
        found = in_turns(args.rounds, sides, lambda side: load("rate", side, *all_options))
        speeds = {side: median(found[side], "keys_per_s") for side in sides}
        costs = [f"{median(found[side], 'server_us_per_request'):.1f}" for side in sides]
        limited = any(median(found[side], "client_busy") > BUSY > median(found[side], "server_busy") for side in sides)
        row = [name + (" (client at its limit)" if limited else ""), *(count(speeds[side]) for side in sides)]
        rows.append([*row, *ratio(speeds, "memcached"), " / ".join(costs)])
    table(["requests per second", *sides, "", "processor time per request, us"], rows)
    [side.stop() for side in sides.values()]


def server_clock(server):
    """From here on the slow log keeps what takes a millisecond."""
    connection = Connection(server.port)
    for name, value in (("slowlog-log-slower-than", 1000), ("slowlog-max-len", 100_000)):
        reply = connection.call("CONFIG", "SET", name, value)
        if reply != "+OK":
            sys.exit(f"CONFIG SET {name}: {reply}")
    connection.call("SLOWLOG", "RESET")
    connection.close()


def longest(server):
    """The longest time of a request by the server's own clock, in milliseconds; what BGSAVE itself took not included."""
    connection = Connection(server.port)
    entries = connection.call("SLOWLOG", "GET", -1)
    info = dict(line.split(b":", 1) for line in connection.call("INFO", "stats").split(b"\r\n") if b":" in line)
    connection.close()
    fork = int(info.get(b"latest_fork_usec", 0)) / 1000
    return max([entry[2] / 1000 for entry in entries if entry[3][0].upper() != b"CONFIG"], default=0), fork


def clock_text(times):
    request, fork = times
    text = f"{request:.1f} ms" if request else "below 1 ms"
    return text + (f", fork {fork:.1f} ms" if fork else "")


APPEND_HEAD = ["", "appends/s", "median window", "worst window / median", "longest request, server's clock",
               "memory per key over key and value", "processor time per append"]


def append_row(name, rows, times):
    limited = " (client at its limit)" if median(rows, "client_busy") > BUSY else ""
    return [
        name + limited,
        count(median(rows, "appends_per_s")),
        count(median(rows, "window_median_per_s")),
        f"{median(rows, 'worst_over_median'):.2f}",
        clock_text(max(times)),
        f"{median(rows, 'overhead_bytes_per_key'):.0f} B",
        f"{median(rows, 'server_us_per_append'):.2f} us",
    ]


def appends(measured, args):
    stream = ["--keys", args.append_keys, "--appends", args.appends]
    saving = [*stream, "--save-after", args.appends // 2]
    file = lambda: measured.splitpoint("--file", os.path.join(measured.place(), "appends.spt"))
    sides = {
        "Redis": (measured.redis, stream),
        "Splitpoint": (measured.splitpoint, stream),
        "Redis, BGSAVE in the middle": (measured.redis, saving),
        "Splitpoint, `--file`, BGSAVE in the middle": (file, saving),
    }
    if not shutil.which("redis-server"):
        skipped("Redis's appends, as there is no redis-server", "redis-server")
        sides = {name: side for name, side in sides.items() if not name.startswith("Redis")}
    times = {name: [] for name in sides}

    def measure(side):
        start, options = side
        server = start()
        server_clock(server)
        row = load("appends", server, *options)
        name = next(name for name, other in sides.items() if other is side)
        times[name].append(longest(server))
        server.kill()
        for folder in os.listdir(measured.folder):
            shutil.rmtree(os.path.join(measured.folder, folder), ignore_errors=True)
        return row

    found = in_turns(args.rounds, sides, measure)
    table(APPEND_HEAD, [append_row(name, found[name], times[name]) for name in sides])
    for name in sides:
        if "BGSAVE" in name:
            beside = [row for row in found[name] if row["saving_worst_over_median"]]
            worst = f"{median(beside, 'saving_worst_over_median'):.2f}" if beside else "none, as it was short"
            print(f"{name}: the save took {median(found[name], 'save_s'):.1f} s, worst window beside it / median {worst}, "
                  f"longest pipeline of 10,000 "
                  f"{max(row['pipeline_max_ms'] for row in found[name]):.0f} ms (median "
                  f"{median(found[name], 'pipeline_median_ms'):.1f} ms)")


def crash(measured, args):
    path = os.path.join(measured.place(), "crash.spt")
    stream = ["--keys", args.append_keys, "--appends", args.appends]
    # The kill comes while the save is under way: it begins after a window of 100,000.
    save = -(-args.appends // 200_000) * 100_000
    kill = min(save + 100_000, args.appends - 20_000)
    server = measured.splitpoint("--file", path, "--durability", "os")
    killed = load("appends", server, *stream, "--save-after", save, "--kill-after", kill)
    server.process.wait()
    since = time.monotonic()
    server = measured.splitpoint("--file", path, "--durability", "os")
    opened = time.monotonic() - since
    row = load("verify", server, *stream, "--acknowledged", killed["acknowledged"], "--sent", killed["sent"])
    print(f"\nkill -9 after {killed['acknowledged']:,} acknowledged appends, {killed['sent']:,} sent: the restarted server serves "
          f"after {opened:.2f} s and has exactly the first {row['present']:,}. None is lost.\n", flush=True)
    server.kill()


def latency(measured, args):
    file = lambda: measured.splitpoint("--file", os.path.join(measured.place(), "latency.spt"))
    sides = {"Redis": measured.redis(), "Splitpoint": measured.splitpoint(), "Splitpoint, `--file`": file()}
    if not sides["Redis"]:
        skipped("Redis's latencies, as there is no redis-server", "redis-server")
    sides = {name: side for name, side in sides.items() if side}
    for side in sides.values():
        load("rate", side, "--operation", "set", "--in-order", "--pipeline", 100, "--keys", args.keys, "--requests", args.keys)
    common = ["--seconds", args.seconds, "--keys", args.keys, "--rate", RATE]
    phases = {"at rest": [], "growing": ["--growing", "--sets", 50], "BGSAVE": ["--saving"]}
    rows = []
    for name, side in sides.items():
        usual = None
        for phase, options in phases.items():
            if phase == "BGSAVE" and name == "Splitpoint":
                continue
            found, times = [], []
            for number in range(args.rounds):
                note(f"  round {number + 1}: {name}, {phase}")
                server_clock(side)
                found.append(load("mixed", side, *common, *options))
                times.append(longest(side))
            quantile = median(found, "p999_us")
            usual = usual or quantile
            reached = min(row["requests_per_s"] for row in found) > 0.98 * RATE
            rows.append([
                f"{name}, {phase}" + ("" if reached else " (slower than the rate)"),
                *(f"{median(found, column):.0f} us" for column in ("p50_us", "p99_us", "p999_us", "max_us")),
                f"{quantile / usual:.1f}x",
                clock_text(max(times)),
            ])
    table([f"{RATE:,} requests per second, 20 % SET", "median", "p99", "p99.9", "longest", "p99.9 over that at rest",
           "longest request, server's clock"], rows)
    [side.stop() for side in sides.values()]


def machine():
    def said(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True).stdout.strip()
        except OSError:
            return ""

    with open("/proc/cpuinfo") as cpuinfo:
        model = next((line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), platform.machine())
    versions = [said(name, "--version").replace("Redis server v=", "Redis ").split(" sha=")[0] for name in ("redis-server", "memcached")]
    commit = said("git", "rev-parse", "--short", "HEAD")
    parts = [f"{os.cpu_count()} x {model}", f"Linux {platform.release()}", *filter(None, versions), time.strftime("%Y-%m-%d")]
    print("; ".join([*parts, f"commit {commit}"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="little of everything, once")
    parser.add_argument("--rounds", type=int, help="how often each is measured; 3 by default")
    args = parser.parse_args()
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    args.rounds = args.rounds or (1 if args.short else 3)
    args.divisor = 100 if args.short else 1
    args.keys = 10_000 if args.short else 1_000_000
    args.append_keys, args.appends = (487_500, 1_325_000) if args.short else (9_750_000, 26_500_000)
    args.seconds = 2 if args.short else 20
    if not shutil.which("taskset"):
        return skipped("all, as there is no taskset to give each side a core", "util-linux")
    os.makedirs(servers.BUILT, exist_ok=True)
    cores = Cores()
    machine()
    with tempfile.TemporaryDirectory(prefix="bench-server-", dir=servers.BUILT) as folder:
        os.chmod(folder, 0o755)
        for part in PARTS:
            if not args.parts or part in args.parts:
                note(f"{part}:")
                globals()[part](Measured(cores, folder), args)


main()
