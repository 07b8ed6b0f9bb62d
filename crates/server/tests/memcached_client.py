#!/usr/bin/env python3
"""memcached clients: pymemcache where it is installed, raw lines, libmemcached's conformance test.

Also tests features that memcached 1.6.18 lacks (append that creates), and the key space shared with Redis clients.
"""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import servers
from resp import Connection


class Lines:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=servers.PATIENCE)
        self.file = self.socket.makefile("rb")

    def ask(self, text, lines=1):
        self.socket.sendall(text)
        return b"".join(self.file.readline() for _ in range(lines))


def expect(actual, expected):
    if actual != expected:
        sys.exit(f"memcached_client: got {actual!r}, expected {expected!r}")


def start(*options):
    port = servers.free_port()
    server = servers.splitpoint("--memcached", f"127.0.0.1:{port}", *options)
    return server, port


def with_redis():
    """One key space: both see the values, and a change by one invalidates the CAS numbers of the other."""
    server, port = start()
    redis, lines = Connection(server.port), Lines(port)
    expect(lines.ask(b"set k 5 100 5\r\nhello\r\n"), b"STORED\r\n")
    expect(redis.call("GET", "k"), b"hello")
    expect(90 < redis.call("TTL", "k") <= 100, True)
    first = lines.ask(b"gets k\r\n", 3).split()[4]
    expect(redis.call("APPEND", "k", " there"), 11)
    expect(lines.ask(b"cas k 0 0 1 %s\r\nx\r\n" % first), b"EXISTS\r\n")
    expect(lines.ask(b"get k\r\n", 3), b"VALUE k 5 11\r\nhello there\r\nEND\r\n")
    expect(redis.call("SET", "n", "10"), "+OK")
    expect(lines.ask(b"incr n 5\r\n"), b"15\r\n")
    expect(redis.call("INCR", "n"), 16)
    expect(redis.call("EXPIRE", "n", "50"), 1)
    expect(lines.ask(b"mg n v f\r\n", 2), b"VA 2 f0\r\n16\r\n")
    # A transaction that watches a key sees a memcached client's change.
    redis.call("WATCH", "k")
    expect(lines.ask(b"set k 0 0 1\r\n1\r\n"), b"STORED\r\n")
    redis.call("MULTI")
    redis.call("GET", "k")
    expect(redis.call("EXEC"), None)
    expect(redis.call("SELECT", "1"), "+OK")
    expect(redis.call("GET", "k"), None)
    server.stop()


def newer_than_1_6_18():
    server, port = start()
    lines = Lines(port)
    expect(lines.ask(b"ms log 3 MA\r\nabc\r\n"), b"NS\r\n")
    expect(lines.ask(b"ms log 3 MA N60\r\nabc\r\n"), b"HD\r\n")
    expect(lines.ask(b"ms log 3 Ma N60\r\ndef\r\n"), b"HD\r\n")
    left = re.fullmatch(rb"VA 6 t([0-9]+)\r\nabcdef\r\n", lines.ask(b"mg log v t\r\n", 2))
    expect(left is not None and 30 < int(left[1]) <= 60, True)
    expect(lines.ask(b"ms pre 1 MP N0\r\nx\r\n"), b"HD\r\n")
    expect(lines.ask(b"mg pre t v\r\n", 2), b"VA 1 t-1\r\nx\r\n")
    expect(lines.ask(b"ms log 3 I T30\r\nnew\r\n"), b"HD\r\n")
    # A value marked as stale: one client is asked to renew it, the others learn that one already was.
    expect(lines.ask(b"md log I T30\r\n"), b"HD\r\n")
    expect(lines.ask(b"mg log v\r\n", 2), b"VA 3 X W\r\nnew\r\n")
    expect(lines.ask(b"mg log v\r\n", 2), b"VA 3 Z X\r\nnew\r\n")
    server.stop()


def numbers():
    """A number that loses digits keeps its length, as in memcached while nobody reads it; and the range's limits."""
    server, port = start()
    lines = Lines(port)
    expect(lines.ask(b"set n 0 0 3\r\n100\r\ndecr n 1\r\n", 2), b"STORED\r\n99\r\n")
    expect(lines.ask(b"get n\r\n", 3), b"VALUE n 0 3\r\n99 \r\nEND\r\n")
    expect(lines.ask(b"decr n 500\r\n"), b"0\r\n")
    expect(lines.ask(b"ma n D18446744073709551615 v\r\n", 2), b"VA 20\r\n18446744073709551615\r\n")
    expect(lines.ask(b"incr n 2\r\n"), b"1\r\n")
    expect(lines.ask(b"ma n T50 t D1000000000000000000000\r\n"), b"CLIENT_ERROR invalid or duplicate flag\r\n")
    expect(lines.ask(b"ma n T50 t\r\n"), b"HD t50\r\n")
    expect(lines.ask(b"ma m N50 J7 MD v t\r\n", 2), b"VA 1 t50\r\n7\r\n")
    server.stop()


def in_a_file():
    """Flags, expiry, marks and CAS numbers survive a kill."""
    with tempfile.TemporaryDirectory() as folder:
        server, port = start("--file", f"{folder}/t.spt")
        lines = Lines(port)
        expect(lines.ask(b"set k 42 1000 5\r\nhello\r\n"), b"STORED\r\n")
        expect(lines.ask(b"ms old 1\r\nx\r\n"), b"HD\r\n")
        expect(lines.ask(b"md old I\r\n"), b"HD\r\n")
        cas = lines.ask(b"gets k\r\n", 3).split()[4]
        expect(lines.ask(b"set a 0 -1 1\r\nx\r\n"), b"STORED\r\n")
        server.kill()
        server, port = start("--file", f"{folder}/t.spt")
        lines = Lines(port)
        expect(lines.ask(b"get k a\r\n", 3), b"VALUE k 42 5\r\nhello\r\nEND\r\n")
        expect(lines.ask(b"mg old\r\n"), b"HD X W\r\n")
        expect(lines.ask(b"cas k 0 0 1 %s\r\nx\r\n" % cas), b"STORED\r\n")
        expect(lines.ask(b"cas k 0 0 1 %s\r\ny\r\n" % cas), b"EXISTS\r\n")
        expect(lines.ask(b"flush_all\r\nget k\r\n", 2), b"OK\r\nEND\r\n")
        server.stop()


def limits():
    with tempfile.NamedTemporaryFile("w") as password:
        password.write("secret\n")
        password.flush()
        server, port = start("--password-file", password.name)
        lines = Lines(port)
        expect(lines.ask(b"get k\r\n"), b"CLIENT_ERROR unauthenticated\r\n")
        expect(lines.ask(b"set x 0 0 9\r\nme wrong!\r\n"), b"CLIENT_ERROR authentication failure\r\n")
        expect(lines.ask(b"set x 0 0 9\r\nme secret\r\n"), b"STORED\r\n")
        expect(lines.ask(b"get k\r\n"), b"END\r\n")
        server.stop()
    server, port = start("--max-value", "1M", "--max-clients", "2")

    def connected():
        """The connection that asked whether the server has started may still count."""
        lines = Lines(port)
        while lines.ask(b"version\r\n") != b"VERSION 1.6.18\r\n":
            time.sleep(0.05)
            lines = Lines(port)
        return lines

    one, two = connected(), connected()
    expect(Lines(port).ask(b""), b"ERROR Too many open connections\r\n")
    # A refused value is skipped without memory for it; the old one is gone, as in memcached.
    expect(one.ask(b"set k 0 0 1\r\n1\r\n"), b"STORED\r\n")
    expect(one.ask(b"set k 0 0 2000000\r\n"), b"SERVER_ERROR object too large for cache\r\n")
    expect(one.ask(b"x" * 2000000 + b"\r\nget k\r\n"), b"END\r\n")
    expect(one.ask(b"set k 0 0 1000000\r\n" + b"x" * 1000000 + b"\r\n"), b"STORED\r\n")
    expect(one.ask(b"append k 0 0 600000\r\n" + b"x" * 600000 + b"\r\n")[:12], b"SERVER_ERROR")
    expect(one.ask(b"x" * 3000)[:26], b"CLIENT_ERROR line too long")
    expect(one.file.read(), b"")
    # A line that comes byte by byte.
    for byte in b"get k1 k2\r":
        two.socket.sendall(bytes([byte]))
        time.sleep(0.001)
    expect(two.ask(b"\n"), b"END\r\n")
    # A delayed flush_all.
    expect(two.ask(b"set k 0 0 1\r\n1\r\nflush_all 3\r\nget k\r\n", 5), b"STORED\r\nOK\r\nVALUE k 0 1\r\n1\r\nEND\r\n")
    servers.eventually("flush_all after its delay", lambda: two.ask(b"mg k\r\n") == b"EN\r\n")
    # Expiry.
    expect(two.ask(b"set k 0 1 1\r\n1\r\n"), b"STORED\r\n")
    servers.eventually("a key expires", lambda: two.ask(b"mg k\r\n") == b"EN\r\n")
    server.stop()


def pymemcache():
    try:
        from pymemcache.client.base import Client
    except ImportError:
        print("SKIPPED: pymemcache, which is not installed (pip install pymemcache)")
        return
    server, port = start()
    c = Client(("127.0.0.1", port), timeout=servers.PATIENCE)
    expect(c.set("k", "v", noreply=False), True)
    expect(c.get("k"), b"v")
    expect(c.add("k", "w", noreply=False), False)
    expect(c.append("k", "x", noreply=False), True)
    value, cas = c.gets("k")
    expect(value, b"vx")
    expect((c.cas("k", "new", cas), c.cas("k", "newer", cas)), (True, False))
    expect(c.set_many({f"k{n}": str(n) for n in range(300)}, noreply=False), [])
    expect(c.get_many([f"k{n}" for n in range(301)]), {f"k{n}": str(n).encode() for n in range(300)})
    expect((c.set("n", "10", noreply=False), c.incr("n", 5), c.decr("n", 20)), (True, 15, 0))
    expect((c.touch("k", 100, noreply=False), c.delete("k", noreply=False), c.get("k")), (True, True, None))
    expect(c.stats()[b"curr_items"], 301)
    expect(c.flush_all(noreply=False), True)
    expect(c.stats()[b"curr_items"], 0)
    server.stop()
    print("memcached_client: pymemcache")


def conformance():
    program = shutil.which("memccapable") or shutil.which("memcapable")
    if not program:
        print("SKIPPED: memcapable, which is not installed (apt install libmemcached-tools)")
        return
    server, port = start()
    command = [program, "-a", "-h", "127.0.0.1", "-p", str(port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE)
    text = done.stdout + done.stderr
    passed = text.count("[pass]")
    if done.returncode or "FAIL" in text or passed < 20:
        sys.exit(f"memcached_client: memcapable: {text}")
    server.stop()
    print(f"memcached_client: memcapable, {passed} tests of the text protocol")


for test in (with_redis, newer_than_1_6_18, numbers, in_a_file, limits, pymemcache, conformance):
    test()
print("memcached_client: as expected")
