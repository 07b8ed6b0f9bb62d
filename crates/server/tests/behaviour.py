#!/usr/bin/env python3
"""What the server does besides answering: limits, slow and idle clients, AUTH, TLS, messages, eviction, signals."""

import os
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

import servers
from resp import Connection
from servers import PATIENCE, eventually


def expect(condition, what):
    if not condition:
        sys.exit(f"behaviour: {what}")


def idle_connections():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2000
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 3 * wanted), hard), hard))
    server = servers.splitpoint()
    before = resident(server)
    idle = [Connection(server.port) for _ in range(wanted)]
    for connection in idle:
        connection.send(("PING",))
    for connection in idle:
        expect(connection.reply() == "+PONG", "an idle connection is not served")
    busy = Connection(server.port)
    replies = busy.pipeline([("SET", f"k{n}", n) for n in range(1000)] + [("GET", f"k{n}") for n in range(1000)])
    expect(replies[1000:] == [str(n).encode() for n in range(1000)], "replies beside idle connections")
    each = (resident(server) - before) / wanted
    expect(each < 16_384, f"an idle connection takes {each:.0f} bytes")
    count = busy.call("INFO", "clients").split(b"connected_clients:")[1].split(b"\r")[0]
    expect(int(count) == wanted + 1, f"{count} clients")
    server.stop()
    print(f"behaviour: {wanted} idle connections take {each / 1024:.1f} KiB each")


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def slow_reader():
    """A client that requests much and reads nothing costs a bounded amount, and is disconnected."""
    server = servers.splitpoint("--stall-timeout", 2)
    fast = Connection(server.port)
    fast.call("SET", "large", b"x" * (1 << 20))
    slow = Connection(server.port)
    before = resident(server)
    slow.send(*[("GET", "large")] * 500)
    time.sleep(0.5)
    grown = resident(server) - before
    expect(grown < 64 << 20, f"a slow reader takes {grown} bytes")
    expect(fast.call("PING") == "+PONG", "others wait for a slow reader")
    eventually("a client that does not read is closed", lambda: fast.call("CLIENT", "LIST").count(b"\n") == 1)
    # Messages: the same, by their number of bytes.
    server.stop()
    server = servers.splitpoint("--max-unread", "1M")
    fast = Connection(server.port)
    subscriber = Connection(server.port)
    subscriber.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    subscriber.call("SUBSCRIBE", "news")
    for _ in range(200):
        fast.call("PUBLISH", "news", b"m" * 100_000)
    eventually("a subscriber that does not read is closed", lambda: fast.call("PUBLISH", "news", "x") == 0)
    server.stop()
    print("behaviour: slow readers are bounded and cut off")


def whole_pipelines():
    """A client that writes all its requests before it reads the first reply is served."""
    server = servers.splitpoint("--stall-timeout", 120)
    connection = Connection(server.port)
    connection.call("SET", "k", b"v" * 200)
    connection.socket.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" * 170_000)
    left = 170_000 * len(b"$200\r\n" + b"v" * 200 + b"\r\n")
    while left > 0:
        piece = connection.socket.recv(1 << 20)
        expect(piece, "the connection was closed")
        left -= len(piece)
    # Only the sleeper waits; others do not, even if sleepers outnumber the threads.
    sleepers = [Connection(server.port) for _ in range(40)]
    [sleeper.send(("DEBUG", "SLEEP", 60)) for sleeper in sleepers]
    expect(connection.call("KEYS", "none") == [], "KEYS beside sleepers")
    server.stop()
    print("behaviour: pipelines that are written before a reply is read")


def limits():
    server = servers.splitpoint("--max-value", "2M", "--max-clients", 5)
    connection = Connection(server.port)
    connection.socket.sendall(b"*2\r\n$3\r\nGET\r\n$3000000\r\n")
    expect(connection.reply() == "-ERR Protocol error: invalid bulk length", "a long argument")
    connection = Connection(server.port)
    expect(connection.call("SETRANGE", "k", 3 << 20, "x").startswith("-ERR string exceeds"), "a long value")
    connection.call("SET", "k", b"x" * (2 << 20))
    expect(connection.call("APPEND", "k", "x").startswith("-ERR string exceeds"), "a value that grows too long")
    for garbage in [b"*3000000000\r\n", b"*-5000000000\r\n", b"*2\r\n$3\r\nGET\r\nx", b"*1\r\n$4\r\nPINGxx"]:
        other = Connection(server.port)
        other.socket.sendall(garbage)
        expect(other.reply().startswith("-ERR"), f"{garbage} is accepted")
    for foreign in [b"\x16\x03\x01", b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nFLUSHALL\r\n"]:
        other = Connection(server.port)
        other.socket.sendall(foreign)
        expect(other.socket.recv(100) == b"", f"{foreign} is answered")
    expect(connection.call("EXISTS", "k") == 1, "a web page removed keys")
    many = [Connection(server.port) for _ in range(8)]
    refused = 0
    for other in many:
        try:
            refused += other.call("PING") == "-ERR max number of clients reached"
        except ConnectionError:
            refused += 1
    expect(refused >= 3, f"{refused} of 8 clients refused")
    [other.close() for other in many]
    server.stop()
    server = servers.splitpoint("--idle-timeout", 1)
    idle = Connection(server.port)
    expect(idle.socket.recv(100) == b"", "an idle connection stays")
    server.stop()
    print("behaviour: limits hold")


def authentication(folder):
    password = os.path.join(folder, "password")
    with open(password, "w") as file:
        file.write("secret\n")
    server = servers.splitpoint("--password-file", password)
    connection = Connection(server.port)
    expect(connection.call("GET", "k") == "-NOAUTH Authentication required.", "no password was asked for")
    expect(connection.call("AUTH", "wrong").startswith("-WRONGPASS"), "a wrong password")
    expect(connection.call("HELLO", "3", "AUTH", "default", "secret")["map"][0][1] == b"redis", "HELLO AUTH")
    expect(connection.call("GET", "k") is None, "after AUTH")
    stranger = Connection(server.port)
    stranger.socket.sendall(b"*1\r\n$20000\r\n")
    expect("unauthenticated bulk length" in stranger.reply(), "a stranger's long argument")
    with open(password, "w") as file:
        file.write("other\n")
    server.process.send_signal(signal.SIGHUP)
    eventually("SIGHUP reads the password again", lambda: Connection(server.port).call("AUTH", "other") == "+OK")
    server.stop()
    public = subprocess.run([*servers.PROGRAM, "--resp", "0.0.0.0:0"], capture_output=True, timeout=PATIENCE)
    expect(public.returncode == 2 and b"no password is set" in public.stderr, f"a public address: {public}")
    print("behaviour: passwords, and no public address without one")


def encryption(folder):
    made = servers.certificate(folder)
    if not made:
        print("SKIPPED: TLS, as there is no openssl to make a certificate (apt install openssl)")
        return
    certificate, key = made
    port, memcached, http = servers.free_port(), servers.free_port(), servers.free_port()
    options = []
    for name, number in (("--resp-tls", port), ("--memcached-tls", memcached), ("--http-tls", http)):
        options += [name, f"127.0.0.1:{number}"]
    server = servers.splitpoint(*options, "--tls-cert", certificate, "--tls-key", key)
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False

    def secure(port):
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))

    connection = Connection(port)
    connection.socket = context.wrap_socket(connection.socket)
    expect(connection.call("SET", "k", b"x" * 300_000) == "+OK", "a long value by TLS")
    expect(connection.call("GET", "k") == b"x" * 300_000, "a long reply by TLS")
    # All requests are written before the first reply is read.
    with secure(port) as stream:
        stream.sendall(b"*1\r\n$4\r\nPING\r\n" * 1_000_000)
        left = len(b"+PONG\r\n") * 1_000_000
        while left > 0:
            piece = stream.recv(1 << 20)
            expect(piece, "the connection was closed")
            left -= len(piece)
    with secure(memcached) as stream:
        stream.sendall(b"set m 0 0 3\r\nabc\r\nget m\r\nquit\r\n")
        expect(received(stream) == b"STORED\r\nVALUE m 0 3\r\nabc\r\nEND\r\n", "memcached by TLS")
    with secure(http) as stream:
        stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = received(stream)
        expect(answer.startswith(b"HTTP/1.1 200") and b"splitpoint_" in answer, f"metrics by TLS: {answer[:200]}")
    for number in (port, memcached, http):
        with socket.create_connection(("127.0.0.1", number), timeout=PATIENCE) as plain:
            plain.sendall(b"PING\r\nversion\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = received(plain)
            expect(not any(word in answer for word in (b"PONG", b"VERSION", b"HTTP")), f"plain text by TLS: {answer}")
    strangers = [socket.create_connection(("127.0.0.1", number), timeout=PATIENCE) for number in (port, memcached, http) * 20]
    for number, stream in enumerate(strangers):
        stream.sendall((b"\x16\x03\x01\x7f\xff\x01", os.urandom(500), b"\x15\x03\x03\x00\x02\x02\x28")[number // 3 % 3])
    expect(connection.call("STRLEN", "k") == 300_000, "a connection beside bad handshakes")
    [stream.close() for stream in strangers]
    # A new certificate counts for new connections; one that cannot be read changes nothing.
    before = ssl.get_server_certificate(("127.0.0.1", memcached))
    servers.certificate(folder)
    server.process.send_signal(signal.SIGHUP)
    eventually("the new certificate", lambda: ssl.get_server_certificate(("127.0.0.1", memcached)) != before)
    renewed = [ssl.get_server_certificate(("127.0.0.1", number)) for number in (port, memcached, http)]
    expect(before not in renewed and len(set(renewed)) == 1, "a listener keeps the old certificate")
    expect(connection.call("STRLEN", "k") == 300_000, "a connection by the old certificate")
    server.stop()
    print("behaviour: TLS")


def received(stream):
    """All bytes until the server closes."""
    data = b""
    while True:
        try:
            more = stream.recv(1 << 16)
        except (ConnectionError, ssl.SSLError):
            return data
        if not more:
            return data
        data += more


def messages():
    server = servers.splitpoint("--threads", 2)
    subscribers = [Connection(server.port) for _ in range(3)]
    for number, subscriber in enumerate(subscribers):
        if number == 2:
            subscriber.call("HELLO", 3)
        expect(subscriber.call("SUBSCRIBE", "news") == [b"subscribe", b"news", 1], "SUBSCRIBE")
    expect(subscribers[0].call("PSUBSCRIBE", "n*") == [b"psubscribe", b"n*", 2], "PSUBSCRIBE")
    expect(subscribers[1].call("GET", "k").startswith("-ERR Can't execute 'get'"), "GET while subscribed")
    expect(subscribers[2].call("GET", "k") is None, "GET while subscribed, by RESP3")
    publisher = Connection(server.port)
    expect(publisher.call("PUBLISH", "news", "hello") == 4, "receivers")
    for subscriber in subscribers:
        expect(subscriber.reply() == [b"message", b"news", b"hello"], "a message")
    expect(subscribers[0].reply() == [b"pmessage", b"n*", b"news", b"hello"], "a message by pattern")
    expect(publisher.call("PUBSUB", "NUMSUB", "news") == [b"news", 3], "NUMSUB")
    expect(subscribers[0].call("UNSUBSCRIBE") == [b"unsubscribe", b"news", 1], "UNSUBSCRIBE")
    # A client that waits for something else gets its messages at once.
    expect(subscribers[2].call("SUBSCRIBE", "alarm") == [b"subscribe", b"alarm", 2], "another channel")
    subscribers[2].send(("BLPOP", "queue", 0))
    eventually("BLPOP waits", lambda: b"blocked_clients:1" in publisher.call("INFO", "clients"))
    expect(publisher.call("PUBLISH", "alarm", "now") == 1, "a client that waits is subscribed")
    expect(subscribers[2].reply() == [b"message", b"alarm", b"now"], "a message for a client that waits")
    publisher.call("RPUSH", "queue", "element")
    expect(subscribers[2].reply() == [b"queue", b"element"], "BLPOP after a message")
    # CLIENT KILL, REPLY, and a name.
    publisher.call("CLIENT", "SETNAME", "publisher")
    expect(b"name=publisher" in publisher.call("CLIENT", "LIST"), "CLIENT LIST")
    expect(publisher.call("CLIENT", "KILL", "TYPE", "pubsub") == 3, "CLIENT KILL")
    publisher.send(("CLIENT", "REPLY", "OFF"), ("SET", "k", "v"), ("CLIENT", "REPLY", "ON"), ("GET", "k"))
    expect([publisher.reply(), publisher.reply()] == ["+OK", b"v"], "CLIENT REPLY")
    publisher.send(("CLIENT", "REPLY", "SKIP"), ("SET", "k", "w"), ("GET", "k"))
    expect(publisher.reply() == b"w", "CLIENT REPLY SKIP")
    server.stop()
    print("behaviour: messages and clients")


def errors():
    """INFO counts an error by its code and its command, alone, in a pipeline, and of a client that waited."""
    server = servers.splitpoint("--max-value", "1m")
    c, waiting = Connection(server.port), Connection(server.port)
    c.pipeline([("SET", "text", "x"), ("LPUSH", "list", "x"), ("XGROUP", "CREATE", "stream", "g", 0, "MKSTREAM"), ("CONFIG", "RESETSTAT")])
    for count in [1, 10]:
        for command in [("GET", "list"), ("STRLEN", "list"), ("INCR", "text"), ("APPEND", "text", "x", "MAXLEN", 1)]:
            expect(all(reply[:1] == "-" for reply in c.pipeline([command] * count)), command)
    waiting.send(("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "stream", ">"))
    eventually("XREADGROUP waits", lambda: b"blocked_clients:1" in c.call("INFO", "clients"))
    c.call("XGROUP", "DESTROY", "stream", "g")
    expect(waiting.reply().startswith("-NOGROUP"), "a client that waited")
    info = dict(line.split(":", 1) for line in c.call("INFO", "all").decode().splitlines() if ":" in line)
    for code, count in {"WRONGTYPE": 22, "ERR": 11, "MAXLEN": 11, "NOGROUP": 1}.items():
        expect(info.get(f"errorstat_{code}") == f"count={count}", f"errors {code}: {info.get(f'errorstat_{code}')}")
    expect(info["total_error_replies"] == "45", info["total_error_replies"])
    for command, count in {"get": 11, "strlen": 11, "incr": 11, "append": 11, "xreadgroup": 1}.items():
        expect(info[f"cmdstat_{command}"].endswith(f",failed_calls={count}"), info[f"cmdstat_{command}"])
    server.stop()
    print("behaviour: errors are counted by code and command")


def lifetimes():
    server = servers.splitpoint("--threads", 2)
    connection = Connection(server.port)
    connection.pipeline([("SET", f"k{n}", n, "EX", 1000) for n in range(20_000)] + [("SET", "stays", 1)])
    expect(connection.call("DBSIZE") == 20_001, "keys before they expire")
    connection.pipeline([("PEXPIRE", f"k{n}", 300) for n in range(20_000)])
    eventually("the last key expires", lambda: connection.call("GET", "k19999") is None)
    expect(connection.call("EXISTS", *[f"k{n}" for n in range(100)]) == 0, "expired keys")
    eventually("the sweep removes expired keys", lambda: connection.call("DBSIZE") == 1)
    # Whether or not the sweep removes a watched key first, the watching client finds it gone.
    watchers = [Connection(server.port) for _ in range(20)]
    for number, watcher in enumerate(watchers):
        watcher.pipeline([("SET", f"watched{number}", 1, "PX", 1000), ("WATCH", f"watched{number}")])
    eventually("the watched keys expire", lambda: connection.call("GET", "watched19") is None)
    replies = [watcher.pipeline([("MULTI",), ("PING",), ("EXEC",)])[2] for watcher in watchers[:10]]
    eventually("the watched keys are swept", lambda: connection.call("DBSIZE") == 1)
    replies += [watcher.pipeline([("MULTI",), ("PING",), ("EXEC",)])[2] for watcher in watchers[10:]]
    expect(replies == [None] * 20, f"watched keys expired: {replies}")
    server.stop()
    print("behaviour: lifetimes")


def eviction():
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl", "noeviction"]:
        server = servers.splitpoint("--max-memory", "32M", "--eviction", policy)
        connection = Connection(server.port)
        value, refused = b"v" * 1000, 0
        for start in range(0, 100_000, 500):
            lifetime = ("EX", 1000) if policy.startswith("volatile") else ()
            replies = connection.pipeline([("SET", f"k{n}", value, *lifetime) for n in range(start, start + 500)])
            refused += sum(reply != "+OK" for reply in replies)
            if policy[-3:] in ("lru", "lfu"):
                connection.pipeline([("GET", "k1"), ("GET", "k2")])
        info = dict(line.split(b":", 1) for line in connection.call("INFO").split(b"\r\n") if b":" in line)
        used, evicted = int(info[b"used_memory"]), int(info[b"evicted_keys"])
        expect(used < 48 << 20, f"{policy}: {used} bytes of memory")
        if policy == "noeviction":
            expect(refused > 50_000 and evicted == 0, f"{policy}: {refused} refused, {evicted} evicted")
            expect(connection.call("SET", "another", value).startswith("-OOM"), policy)
            expect(connection.call("GET", "k1") == value, policy)
            connection.call("FLUSHALL")
            expect(connection.call("SET", "another", value) == "+OK", "no room after FLUSHALL")
        else:
            expect(refused == 0 and evicted > 50_000, f"{policy}: {refused} refused, {evicted} evicted")
        if policy[-3:] in ("lru", "lfu"):
            expect(connection.call("EXISTS", "k1", "k2") == 2, "keys in use were evicted")
        server.stop()
        print(f"behaviour: {policy}: {used >> 20} MiB of 32, {evicted} evicted, {refused} refused")


def colliding(count):
    """Keys of one hash by djb2, which has no key: 33 * 'E' + 'z' is 33 * 'F' + 'Y'."""
    bits = range(count.bit_length() - 1)
    return [b"".join(b"FY" if n >> bit & 1 else b"Ez" for bit in bits) for n in range(count)]


def fullest_bucket(server, keys):
    connection = Connection(server.port)
    for at in range(0, len(keys), 1000):
        connection.pipeline([("SET", key, b"x") for key in keys[at : at + 1000]])
    stats = connection.call("HT.STATS", "SAMPLE", 100_000)
    stats = dict(zip(stats[::2], stats[1::2]))
    return stats[b"hash"], max(stats[b"sampled-histogram"][::2]), connection.call("SCAN", 0, "COUNT", 100)[1]


def flood(folder):
    """Clients cannot choose keys that collide: the hash function is keyed, with another key at each start."""
    keys, orders = colliding(4096), []
    for _ in range(2):
        server = servers.splitpoint()
        name, fullest, order = fullest_bucket(server, keys)
        expect(name == b"siphash13", f"keys are hashed by {name}")
        expect(fullest < len(keys) // 8, f"a bucket has {fullest} keys")
        orders.append(order)
        server.stop()
    expect(orders[0] != orders[1], "two servers have the keys in the same order: the seed is not random")
    # The control: a file with the function that the keys were chosen for. All of them share a bucket.
    path = os.path.join(folder, "flooded.spt")
    program = [part for part in servers.PROGRAM if part != "serve"]
    subprocess.run([*program, "load", "--hash", "djb2", path], input=b"first\t1\n", check=True, capture_output=True)
    server = servers.splitpoint("--file", path)
    name, flooded, _ = fullest_bucket(server, keys)
    expect((name, flooded >= len(keys)) == (b"djb2", True), f"the control: {flooded} keys in a bucket, by {name}")
    server.stop()
    print(f"behaviour: of {len(keys)} colliding keys the fullest bucket has {fullest}; without a keyed function {flooded}")


def ends(folder):
    path = os.path.join(folder, "end.spt")
    server = servers.splitpoint("--file", path)
    connection = Connection(server.port)
    connection.pipeline([("SET", f"k{n}", n) for n in range(10_000)] + [("SELECT", 3), ("SET", "three", 3, "EX", 5000)])
    expect(server.stop() == 0, "SIGTERM")
    expect(not os.path.exists(path + "-log"), "a log is left behind")
    server = servers.splitpoint("--file", path)
    connection = Connection(server.port)
    expect(connection.call("DBSIZE") == 10_000, "keys after an orderly end")
    connection.call("SELECT", 3)
    expect(connection.call("TTL", "three") > 4000 and connection.call("DBSIZE") == 1, "a lifetime after an orderly end")
    expect(connection.call("SAVE") == "+OK" and connection.call("BGSAVE") == "+Background saving started", "SAVE")
    connection.send(("SHUTDOWN", "NOSAVE"))
    expect(server.process.wait(timeout=PATIENCE) == 0, "SHUTDOWN")
    print("behaviour: orderly ends")


def endless_scripts(folder):
    """A script without end: others get an error, and the server can be stopped. Its changes are never kept in part."""
    for file in [[], ["--file", os.path.join(folder, "scripts.spt")]]:
        for stop in ["SCRIPT KILL", "SHUTDOWN NOSAVE", "SIGTERM"]:
            server = servers.splitpoint(*file)
            first, other = Connection(server.port), Connection(server.port)
            other.call("CONFIG", "SET", "lua-time-limit", "1")
            expect(other.call("SET", "counter", "0") == "+OK", "a write before scripts")
            first.send(("EVAL", "while true do redis.call(ARGV[1], 'counter') end", 0, "GET" if "KILL" in stop else "INCR"))
            # More clients than threads that wait.
            waiting = [Connection(server.port) for _ in range(200)]
            servers.eventually("BUSY", lambda: str(other.call("GET", "counter")).startswith("-BUSY"))
            for connection in waiting:
                connection.send(("INCR", "other"))
            if stop == "SIGTERM":
                expect(server.stop() == 0, "SIGTERM during a script")
            else:
                other.send(stop.split())
            if stop == "SCRIPT KILL":
                expect(other.reply() == "+OK" and "killed" in first.reply(), "SCRIPT KILL")
                replies = [connection.reply() for connection in waiting]
                expect(all(isinstance(r, int) or r.startswith("-BUSY") for r in replies), f"clients that waited: {replies}")
                expect(other.call("GET", "counter") is not None and server.stop() == 0, "a server after SCRIPT KILL")
            else:
                expect(server.process.wait(timeout=PATIENCE) == 0, f"{stop} during a script")
                if file:
                    server = servers.splitpoint(*file)
                    left = int(Connection(server.port).call("GET", "counter"))
                    expect(left == 0, f"half of a script is in the file: {left}")
                    server.stop()
    # Of a transaction, with one thread for all connections.
    server = servers.splitpoint("--threads", 1)
    first, other = Connection(server.port), Connection(server.port)
    first.pipeline([("MULTI",), ("EVAL", "while true do end", 0)])
    first.send(("EXEC",))
    servers.eventually("a running script", lambda: other.call("SCRIPT", "KILL") == "+OK")
    expect("killed" in first.reply()[0], "SCRIPT KILL during EXEC")
    server.stop()
    print("behaviour: endless scripts end by SCRIPT KILL, SHUTDOWN NOSAVE and SIGTERM")


def attacks():
    """Attacks that a client might try: other clients are served, and the cost of one client is bounded."""
    memcached, http = servers.free_port(), servers.free_port()
    options = ["--memcached", f"127.0.0.1:{memcached}", "--http", f"127.0.0.1:{http}"]
    server = servers.splitpoint(*options, "--max-request", "16M", "--max-value", "2M", "--stall-timeout", 5)
    victim, attacker = Connection(server.port), Connection(server.port)
    before = resident(server)

    # Replies that the client does not want, to commands that do not exist; the next commands have their own replies.
    attacker.send(("CLIENT", "REPLY", "OFF"), ("NOSUCH",), ("GET",), ("CLIENT", "REPLY", "ON"))
    expect(attacker.reply() == "+OK", "a reply after CLIENT REPLY OFF")
    attacker.send(("CLIENT", "REPLY", "SKIP"), ("NOSUCH",), ("PING",))
    expect(attacker.reply() == "+PONG", "a reply after CLIENT REPLY SKIP")

    # Nothing in a transaction waits or stops the server.
    for words in (("DEBUG", "SLEEP", 60), ("SHUTDOWN",), ("SAVE",), ("MULTI",)):
        replies = attacker.pipeline([("MULTI",), words, ("DISCARD",)])
        expect(replies[1].startswith("-ERR") and replies[2] == "+OK", f"{words} in a transaction: {replies}")
    expect(victim.call("PING") == "+PONG", "others wait")

    # Values requested again and again.
    attacker.call("SET", "large", b"x" * (1 << 20))
    expect(attacker.call("MGET", *["large"] * 5000).startswith("-ERR the reply"), "MGET of 5 GB")
    replies = attacker.pipeline([("MULTI",)] + [("GET", "large")] * 3000 + [("SET", "made", 1), ("EXEC",)])
    expect(len(replies[-1]) == 3001 and replies[-1][2999].startswith("-ERR the reply"), "EXEC with 3 GB of replies")
    expect(victim.call("GET", "made") == b"1", "a transaction with long replies")
    with socket.create_connection(("127.0.0.1", memcached), timeout=PATIENCE) as stream:
        stream.sendall(b"get" + b" large" * 20_000 + b"\r\n")
        time.sleep(1)
        expect(victim.call("PING") == "+PONG", "others wait for a long get")
    grown = resident(server) - before
    expect(grown < 300 << 20, f"long replies take {grown} bytes")

    # Names that others would copy; many keys and channels; numbers with huge exponents.
    expect(attacker.call("CLIENT", "SETNAME", b"n" * 100_000).startswith("-ERR"), "a long name")
    expect(attacker.call("CLIENT", "SETINFO", "LIB-NAME", b"n" * 100_000).startswith("-ERR"), "a long name")
    since = time.monotonic()
    for start in range(0, 60_000, 20_000):
        attacker.call("WATCH", *[f"k{n}" for n in range(start, start + 20_000)])
    attacker.call("UNWATCH")
    expect(time.monotonic() - since < PATIENCE, "WATCH of many keys takes time for each pair of them")
    for start in range(0, 300):
        if attacker.call("WATCH", *[b"%d" % n + b"x" * 1000 for n in range(start * 100, start * 100 + 100)]) != "+OK":
            break
    expect(start < 290, "WATCH without a limit")
    attacker.call("UNWATCH")
    for exponent in ("1e2147483647", "1e-2147483648", "0e2147483647", "1e999999999999"):
        reply = attacker.call("INCRBYFLOAT", "float", exponent)
        expect(isinstance(reply, (str, bytes)), f"{exponent}: {reply}")
    subscriber = Connection(server.port)
    names = [b"%d" % n + b"x" * 900_000 for n in range(20)]
    refused = [name for name in names if isinstance(subscriber.call("SUBSCRIBE", name), str)]
    expect(refused, "SUBSCRIBE without a limit")

    # Requests that never end, and malformed bytes.
    slow = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for port in (server.port, memcached, http) * 20]
    for part in (b"*3\r\n$3\r\nSE", b"T\r\n$1", b"\r"):
        for stream in slow:
            try:
                stream.sendall(part)
            except ConnectionError:
                pass  # HTTP has refused it
        expect(victim.call("PING") == "+PONG", "others wait for requests that do not end")
    for garbage in (b"\x16\x03\x01" + os.urandom(3000), os.urandom(100_000), b"*1\r\n$2147483647\r\n", b"\0" * 200_000):
        for port in (server.port, memcached, http):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as stream:
                try:
                    stream.sendall(garbage)
                    stream.recv(1000)
                except OSError:
                    pass
    [stream.close() for stream in slow]

    # HTTP: one request is one answer, whatever its headers say of a body.
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    heads = {
        b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(smuggled): b"0\r\n\r\n" + smuggled,
        b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(smuggled): smuggled,
        b"Content-Length: %d\r\n" % len(smuggled): smuggled,
        b"X: " + b"x" * 100_000 + b"\r\n": b"",
        b"X: x\r\n" * 1000: b"",
    }
    for head, body in heads.items():
        with socket.create_connection(("127.0.0.1", http), timeout=PATIENCE) as stream:
            try:
                stream.sendall(b"POST /health HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n" + body)
            except ConnectionError:
                pass
            answer = received(stream)
            expect(answer.count(b"HTTP/1.1") <= 1 and b"splitpoint_" not in answer, f"{head[:60]}: {answer[:200]}")
    eventually("the connections are closed", lambda: victim.call("CLIENT", "LIST").count(b"\n") <= 3)
    expect(server.stop() == 0, "the end after attacks")
    print(f"behaviour: attacks, with {grown >> 20} MiB more at the peak")


def full_disk(folder):
    """If the disk fills up during a pipeline, each command gets its own result."""
    path = os.path.join(folder, "full.spt")
    server = servers.splitpoint("--file", path, limit_file_bytes=4 << 20)
    connection = Connection(server.port)
    connection.call("SET", "first", "")
    made, refused = {}, 0
    for _ in range(40):
        keys = [b"k%d" % (n % 50) for n in range(150)]
        for key, reply in zip(keys, connection.pipeline([("APPEND", key, b"x" * 1000) for key in keys])):
            if isinstance(reply, int):
                made[key] = reply
            else:
                expect(reply.startswith("-MISCONF"), f"a full disk: {reply}")
                refused += 1
    expect(made and refused, f"{len(made)} keys, {refused} appends refused")
    for key, length in made.items():
        expect(connection.call("STRLEN", key) == length, f"{key}: an append is made and was refused, or the reverse")
    server.kill()
    print(f"behaviour: a full disk, {refused} appends refused, each by itself")


def tmpfs(folder):
    """A small disk that can be filled; None if none can be mounted."""
    place = os.path.join(folder, "small")
    os.makedirs(place)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "splitpoint-test", place], capture_output=True)
    return place if mounted.returncode == 0 else None


def full_disks(folder):
    """A full disk refuses writes and keeps all acknowledged ones; with space again the server works."""
    place = tmpfs(folder)
    if not place:
        print("SKIPPED: full disks, as only root can mount a small one")
        return
    try:
        for durability in ("none", "os", "sync"):
            full_disk_of(place, durability)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
    print("behaviour: full disks, by each durability")


def full_disk_of(place, durability):
    path, ballast = os.path.join(place, f"{durability}.spt"), os.path.join(place, "ballast")
    options = ["--file", path, "--durability", durability]
    server = servers.splitpoint(*options)
    connection = Connection(server.port)
    connection.pipeline([("SET", f"before{n}", n) for n in range(1000)])
    expect(connection.call("SAVE") == "+OK", "SAVE with room")
    with open(ballast, "wb") as file:
        room = os.statvfs(place)
        file.write(b"x" * (room.f_bavail * room.f_frsize - (2 << 20)))
    made, refused = {}, 0
    # A refused write asks the disk for space, which takes a while.
    for start in range(0, 20_000, 100):
        if refused > 500:
            break
        keys = [b"k%d" % n for n in range(start, start + 100)]
        try:
            replies = connection.pipeline([("SET", key, key * 100) for key in keys])
        except ConnectionError:
            # Answers that could not be made durable are not sent.
            expect(durability == "sync", f"{durability}: closed by a full disk")
            connection = Connection(server.port)
            refused += 1
            continue
        made.update({key: key * 100 for key, reply in zip(keys, replies) if reply == "+OK"})
        expect(all(reply == "+OK" or reply.startswith("-MISCONF") for reply in replies), f"{durability}: {set(replies)}")
        refused += sum(reply != "+OK" for reply in replies)
    expect(refused, f"{durability}: a disk of 24 MiB takes all")

    def compare(what):
        keys = list(made)
        for at in range(0, len(keys), 1000):
            values = connection.pipeline([("GET", key) for key in keys[at : at + 1000]])
            lost = [key for key, value in zip(keys[at : at + 1000], values) if value != made[key]]
            expect(not lost, f"{durability}: {what}: {len(lost)} of {len(made)} are lost, {lost[:3]}")
        expect(connection.call("GET", "before7") == b"7", f"{durability}: {what}: a key from before")

    compare("read on a full disk")
    status = lambda: connection.call("INFO", "persistence")
    # With a log, a checkpoint found space for its content, or none.
    expect(b"writes_refused:1" in status() and b"aof_last_write_status:err" in status(), f"{durability}: INFO of a full disk")
    os.remove(ballast)
    servers.eventually("room is found without a write", lambda: b"writes_refused:0" in status())
    reply = connection.call("SET", "again", 1)
    expect(reply == "+OK", f"{durability}: a write with room again: {reply}")
    if durability == "none":
        # Nothing is in the log: the checkpoint is what counts.
        reply = connection.call("SAVE")
        expect(reply == "+OK", f"SAVE with room again: {reply}")
    server.kill()
    server = servers.splitpoint(*options)
    connection = Connection(server.port)
    compare("after kill -9 and a restart")
    expect(connection.call("SET", "after", 1) == "+OK" and connection.call("SAVE") == "+OK", f"{durability}: with room again")
    expect(server.stop() == 0, f"{durability}: the end")
    for name in os.listdir(place):
        os.remove(os.path.join(place, name))


def half_closed():
    """A client that has sent everything and closes its side gets all answers, then the end of the stream."""
    memcached, http = servers.free_port(), servers.free_port()
    server = servers.splitpoint("--memcached", f"127.0.0.1:{memcached}", "--http", f"127.0.0.1:{http}")
    Connection(server.port).call("SET", "large", b"x" * 100_000)
    get = b"*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n"
    answer = b"$100000\r\n" + b"x" * 100_000 + b"\r\n"
    page = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for port, request, count, end in (
        (server.port, get, 500, answer),
        (server.port, b"PING\r\n", 20_000, b"+PONG\r\n"),
        (memcached, b"get large\r\n", 500, b"\r\nEND\r\n"),
        *[(http, page, 1, b"ok\n")] * 300,
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as stream:
            stream.sendall(request * count)
            stream.shutdown(socket.SHUT_WR)
            data = received(stream)
            expect(data.count(end) == count and data.endswith(end), f"{request}: {data.count(end)} answers of {count}")
    # Half a request, and the end.
    for port in (server.port, memcached, http):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as stream:
            stream.sendall(b"*2\r\n$3\r\nGET\r\n$5\r\nlar" if port == server.port else b"get lar")
            stream.shutdown(socket.SHUT_WR)
            received(stream)
    server.stop()
    print("behaviour: half-closed connections get their answers")


def floods(folder):
    """Very long transactions and pipelines, many subscriptions, many connections that break off."""
    server = servers.splitpoint("--file", os.path.join(folder, "flood.spt"))
    victim = Connection(server.port)
    count = 300_000
    sets = b"".join(b"*3\r\n$3\r\nSET\r\n$7\r\nk%06d\r\n$1\r\nv\r\n" % n for n in range(count))
    # DBSIZE and KEYS of a long transaction do not walk all of it each time.
    sizes = b"*1\r\n$6\r\nDBSIZE\r\n" * 20_000 + b"*2\r\n$4\r\nKEYS\r\n$2\r\nno\r\n" * 3
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as stream:
        sender = threading.Thread(target=stream.sendall, args=(b"MULTI\r\n" + sets + sizes + b"EXEC\r\n",))
        sender.start()
        data = bytearray()
        end = b":%d\r\n" % count + b"*0\r\n" * 3
        while not data.endswith(end):
            more = stream.recv(1 << 20)
            expect(more, f"a transaction of {count} commands ends after {len(data)} bytes: {bytes(data[-100:])}")
            data += more
        sender.join()
    expect(data.count(b"+QUEUED") == count + 20_003 and data.count(b":%d\r\n" % count) == 20_000, "a long transaction")
    expect(victim.call("DBSIZE") == count, "the keys of a long transaction")
    # Subscriptions that end all at once.
    names = [b"channel%d" % n for n in range(500)]
    subscribers = [Connection(server.port) for _ in range(100)]
    for subscriber in subscribers:
        subscriber.send(("SUBSCRIBE", *names), ("PSUBSCRIBE", "c*"))
    for subscriber in subscribers:
        expect([subscriber.reply() for _ in range(501)][-1] == [b"psubscribe", b"c*", 501], "many subscriptions")
    for _ in range(20):
        expect(victim.call("PUBLISH", "channel7", "x" * 1000) == 200, "receivers")
    for subscriber in subscribers:
        subscriber.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        subscriber.close()
    eventually("the subscriptions end", lambda: victim.call("PUBSUB", "NUMPAT") == 0 and victim.call("PUBSUB", "CHANNELS") == [])
    # Connections that break during a request, during a reply, immediately.
    for number in range(3000):
        stream = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.sendall((b"*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n" if number % 300 == 0 else b"*2\r\n$3\r\nGE", b"PING\r\n", b"\0")[number % 3])
        stream.close()
    eventually("broken connections are gone", lambda: victim.call("CLIENT", "LIST").count(b"\n") == 1)
    # Stopping during BGSAVE loses nothing.
    expect(victim.call("BGSAVE") == "+Background saving started", "BGSAVE")
    expect(server.stop() == 0, "SIGTERM during BGSAVE")
    server = servers.splitpoint("--file", os.path.join(folder, "flood.spt"))
    expect(Connection(server.port).call("DBSIZE") == count, "keys after an end during BGSAVE")
    server.stop()
    print(f"behaviour: a transaction of {count + 20_003} commands, 50100 subscriptions, 3000 broken connections")


def systemd(folder):
    path = os.path.join(folder, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(PATIENCE)
        os.environ["NOTIFY_SOCKET"] = path
        server = servers.splitpoint()
        del os.environ["NOTIFY_SOCKET"]
        expect(listener.recv(100) == b"READY=1\nSTATUS=Serving", "READY")
        server.stop()
        expect(listener.recv(100) == b"STOPPING=1", "STOPPING")
    # Sockets that systemd opened: the first for Redis clients, the second, by its name, for memcached clients.
    pass_sockets = """
import os, socket, sys
sockets = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[1:3]]
for number, each in enumerate(sockets):
    os.dup2(each.detach(), 10 + number)
for number in range(2):
    os.dup2(10 + number, 3 + number)
    os.close(10 + number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES="splitpoint.socket:memcached")
os.execvp(sys.argv[3], sys.argv[3:])
"""
    ports = [servers.free_port(), servers.free_port()]
    command = [sys.executable, "-c", pass_sockets, *map(str, ports), *servers.PROGRAM]
    server = servers.Server(command, ports[0], "splitpoint with inherited sockets")
    connection = Connection(ports[0])
    expect(connection.call("SET", "k", "v") == "+OK", "an inherited socket for Redis clients")
    expect(b"tcp_port:%d" % ports[0] in connection.call("INFO", "server"), "the port of an inherited socket")
    with socket.create_connection(("127.0.0.1", ports[1]), timeout=PATIENCE) as memcached:
        memcached.sendall(b"get k\r\n")
        expect(memcached.recv(100) == b"VALUE k 0 1\r\nv\r\nEND\r\n", "an inherited socket for memcached clients")
    expect(server.stop() == 0, "the end of a server with inherited sockets")
    public = [part.replace('"127.0.0.1"', '"0.0.0.0"') for part in command]
    refused = subprocess.run(public, capture_output=True, timeout=PATIENCE)
    expect(refused.returncode == 2 and b"no password is set" in refused.stderr, f"a public inherited socket: {refused}")
    print("behaviour: systemd is notified, and its sockets are served")


def main():
    with tempfile.TemporaryDirectory() as folder:
        whole_pipelines()
        limits()
        attacks()
        authentication(folder)
        encryption(folder)
        messages()
        errors()
        lifetimes()
        eviction()
        flood(folder)
        slow_reader()
        idle_connections()
        ends(folder)
        endless_scripts(folder)
        full_disk(folder)
        full_disks(folder)
        half_closed()
        floods(folder)
        systemd(folder)


main()
