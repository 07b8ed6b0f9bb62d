#!/usr/bin/env python3
"""A dictionary on three servers, byte by byte: redirections, refusals, topologies, generations, redis-cli, memcached."""

import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time

import cluster
import resp
import servers
from cluster import ask, eventually, node, place, refuse, serve, topology

WORDS = cluster.words()
LINE = {word: str(number).encode() for number, word in enumerate(WORDS, 1)}
READ_ONLY = "-READONLY You can't write against a read only replica."
CROSS = "-CROSSSLOT Keys in request don't hash to the same slot"


def slot(word):
    return ask(single.port, "CLUSTER", "KEYSLOT", word)


def one_server():
    """Without a topology a server has all slots, and plain clients need not know of them."""
    global single
    folder = cluster.build("one.spd", 3)
    single = serve(servers.free_port(), "--dict", folder)
    client = resp.Connection(single.port)
    call = client.call
    assert call("GET", "hello") == LINE[b"hello"] and call("GET", "nope!!") is None
    assert call("MGET", "hello", "nope!", "world") == [LINE[b"hello"], None, LINE[b"world"]]
    assert call("DBSIZE") == len(WORDS) and call("EXISTS", "hello", "world", "nope!") == 2
    assert call("STRLEN", "hello") == len(LINE[b"hello"]) and call("GETRANGE", "hello", 0, 1) == LINE[b"hello"][:2]
    assert call("TYPE", "hello") == "+string" and call("TYPE", "nope!") == "+none" and call("TOUCH", "hello") == 1
    assert call("TTL", "hello") == -1 and call("PTTL", "nope!") == -2 and call("OBJECT", "ENCODING", "hello") == b"int"
    assert call("MEMORY", "USAGE", "hello") == len(b"hello" + LINE[b"hello"]) and call("RANDOMKEY") in LINE
    assert call("DUMP", "hello")[0] == 0 and call("SUBSTR", "hello", -1, -1) == LINE[b"hello"][-1:]
    for write in (["SET", "a", 1], ["APPEND", "a", 1], ["DEL", "hello"], ["INCR", "a"], ["FLUSHALL"], ["EXPIRE", "hello", 1],
                  ["GETDEL", "hello"], ["MSET", "a", 1, "b", 2], ["RENAME", "hello", "b"], ["PERSIST", "hello"]):
        assert call(*write) == READ_ONLY, (write, call(*write))
    assert call("SELECT", 1) == "-ERR SELECT is not allowed in cluster mode" and call("SELECT", 0) == "+OK"
    assert call("SAVE").startswith("-ERR nothing to save") and call("BGSAVE").startswith("-ERR nothing to save")
    # SCAN meets every word once, KEYS the same.
    cursor, found = b"0", []
    while True:
        cursor, keys = call("SCAN", cursor, "COUNT", 1000)
        found += keys
        if cursor == b"0":
            break
    assert len(found) == len(WORDS) and set(found) == set(LINE)
    assert sorted(call("KEYS", "zo*")) == sorted(word for word in WORDS if word.startswith(b"zo"))
    cursor, keys = call("SCAN", 0, "MATCH", "nothing*", "COUNT", 100)
    assert keys == [] and cursor != b"0"
    # Transactions of reads; a write spoils them.
    assert client.pipeline([["MULTI"], ["GET", "hello"], ["DBSIZE"], ["EXEC"]]) == [
        "+OK", "+QUEUED", "+QUEUED", [LINE[b"hello"], len(WORDS)]]
    assert client.pipeline([["MULTI"], ["SET", "a", 1], ["EXEC"]])[1:] == [
        READ_ONLY, "-EXECABORT Transaction discarded because of previous errors."]
    # One long pipeline is answered in its order.
    some = WORDS[::7]
    pipeline = [["GET", word] for word in some]
    pipeline[5:5] = [["SET", "a", 1], ["STRLEN", "hello"]]
    values = [LINE[word] for word in some]
    values[5:5] = [READ_ONLY, len(LINE[b"hello"])]
    assert client.pipeline(pipeline) == values
    # A cluster of one node, at the address that the client used.
    [[first, last, [host, port, name, more]]] = call("CLUSTER", "SLOTS")
    assert (first, last, host, port, more) == (0, 16383, b"127.0.0.1", single.port, [])
    assert call("CLUSTER", "MYID") == name and call("CLUSTER", "KEYSLOT", "foo{bar}x") == 5061
    info = call("INFO").decode()
    assert "cluster_enabled:1" in info and "redis_mode:cluster" in info and f"db0:keys={len(WORDS)}" in info
    assert "dictionary_last_reload_status:ok" in info and "dictionary_open_shards:3" in info
    for command in ("READONLY", "READWRITE", "ASKING"):
        assert call(command) == "+OK"
    assert call("CLUSTER", "MEET", "127.0.0.1", 1).startswith("-ERR The topology is that of a file")
    assert call("CLUSTER", "COUNTKEYSINSLOT", 5).startswith("-ERR The keys of a single slot")
    assert call("CLUSTER", "COUNTKEYSINSLOT", 16384) == "-ERR Invalid slot"
    assert call("CLUSTER", "NOPE").startswith("-ERR unknown subcommand") and len(call("CLUSTER", "HELP")) > 10
    hello = dict(call("HELLO", 3)["map"])
    assert hello[b"mode"] == b"cluster" and hello[b"role"] == b"master"
    [shard] = call("CLUSTER", "SHARDS")
    assert dict(shard["map"])[b"slots"] == [0, 16383]
    table = servers.splitpoint()
    assert ask(table.port, "CLUSTER", "SLOTS") == "-ERR This instance has cluster support disabled"
    assert ask(table.port, "READONLY") == "-ERR This instance has cluster support disabled"
    table.stop()


def three_servers():
    """Each has its shards, and sends clients to the others."""
    folder = cluster.build("three.spd", 4)
    ports = [servers.free_port() for _ in range(4)]
    file = topology("three.toml", node(ports[0], "shards = [0, 1]", 'name = "a"') + node(ports[1], "shards = [2]")
                    + node(ports[2], 'slots = "12288-16383"') + node(ports[3], 'replica-of = "a"'))
    nodes = [serve(port, "--dict", folder, "--cluster-topology", file) for port in ports]
    firsts = [0, 8192, 12288]
    owner = lambda word: sum(slot(word) >= first for first in firsts) - 1
    clients = [resp.Connection(port) for port in ports]
    some = WORDS[::1777]
    assert {owner(word) for word in some} == {0, 1, 2}
    for word in some:
        for number, client in enumerate(clients):
            own = number in (owner(word), 3 if owner(word) == 0 else -1)
            moved = f"-MOVED {slot(word)} 127.0.0.1:{ports[owner(word)]}"
            assert client.call("GET", word) == (LINE[word] if own else moved)
            # The slot is asked first, then whether it is a write.
            assert client.call("SET", word, 1) == (READ_ONLY if own else moved)
    # A pipeline of words of all nodes: each answered or redirected, in order.
    replies = clients[1].pipeline([["GET", word] for word in WORDS[:3000]])
    answered = {word: reply for word, reply in zip(WORDS, replies) if isinstance(reply, bytes)}
    assert all(LINE[word] == reply for word, reply in answered.items()) and 500 < len(answered) < 1000
    assert all(isinstance(reply, bytes) or reply.startswith("-MOVED ") for reply in replies)
    here = [word for word in some if owner(word) == 0]
    assert clients[0].call("MGET", here[0], here[1]) == CROSS
    assert clients[0].call("MGET", "{x}1", "{x}2", "{x}1") in ([None] * 3, f"-MOVED 16287 127.0.0.1:{ports[2]}")
    assert clients[0].call("MSET", here[0], 1, here[1], 1) == CROSS
    one, both = [LINE[here[0]]], ["MGET", here[0], here[1]]
    pipeline = [["MGET", here[0]], ["MGET", here[0], here[0]], both, ["MGET", here[0]], both, ["EXISTS", here[0]]]
    assert clients[0].pipeline(pipeline) == [one, one * 2, CROSS, one, CROSS, 1]
    assert clients[0].pipeline([["EXISTS", here[0]], ["EXISTS", *here[:2]], ["STRLEN", here[0]], ["APPEND", here[0], 1]]) == [
        1, CROSS, len(one[0]), READ_ONLY]
    multi = [["MULTI"], ["GET", here[0]], ["GET", here[1]], ["EXEC"]]
    assert clients[0].pipeline(multi) == ["+OK", "+QUEUED", "+QUEUED", CROSS]
    there = next(word for word in some if owner(word) == 2)
    multi = [["MULTI"], ["GET", there], ["EXEC"], ["GET", here[0]]]
    assert clients[0].pipeline(multi) == [
        "+OK", f"-MOVED {slot(there)} 127.0.0.1:{ports[2]}",
        "-EXECABORT Transaction discarded because of previous errors.", LINE[here[0]]]
    # Together they have every word once.
    assert sum(client.call("DBSIZE") for client in clients[:3]) == len(WORDS)
    found = [word for client in clients[:3] for word in client.call("KEYS", "*")]
    assert len(found) == len(WORDS) and set(found) == set(LINE)
    assert all(owner(client.call("RANDOMKEY")) == number for number, client in enumerate(clients[:3]))
    # All describe each other in the same way.
    rows = clients[0].call("CLUSTER", "SLOTS")
    assert all(client.call("CLUSTER", "SLOTS") == rows for client in clients)
    assert [(row[0], row[1], row[2][1]) for row in rows] == [
        (0, 8191, ports[0]), (8192, 12287, ports[1]), (12288, 16383, ports[2])]
    assert rows[0][3][1] == ports[3]
    lines = clients[3].call("CLUSTER", "NODES").decode().splitlines()
    assert [("myself" in line, "slave" in line) for line in lines] == [(False, False)] * 3 + [(True, True)]
    [replica] = clients[0].call("CLUSTER", "REPLICAS", rows[0][2][2])
    assert replica.decode().split()[0] == lines[3].split()[0]
    assert "role:slave" in clients[3].call("INFO", "replication").decode()
    if shutil.which("redis-cli"):
        command = ["redis-cli", "-c", "-p", str(ports[0])]
        lines = subprocess.run(command, input=b"".join(b"GET %s\n" % word for word in some), capture_output=True, timeout=servers.PATIENCE)
        # Redirections come between the values.
        values = [line for line in lines.stdout.splitlines() if not line.startswith(b"->")]
        assert values == [LINE[word] for word in some], values[:5]
    else:
        print("SKIPPED: redis-cli -c, which is not installed")
    for client in clients:
        client.close()
    return folder, ports, nodes, file


def topologies():
    """Errors in a topology, a dictionary or the options are reported before anything is served."""
    folder = place("one.spd")
    half = node(1, 'slots = "0-8191"')
    full = lambda text: ("--dict", folder, "--cluster-topology", topology("wrong.toml", text), "--announce", "127.0.0.1:1")
    refuse("no node has slots 8192-16383", *full(half))
    refuse("both have slot 8000", *full(half + node(2, 'slots = "8000-16383"')))
    refuse("there is no shard 3", *full(node(1, "shards = [0, 1, 2, 3]")))
    refuse("expected", *full("[[node]\n"))
    refuse("no node has the address 127.0.0.1:", *full(half + node(2, 'slots = "8192-16383"'))[:4])
    refuse("No such file", "--dict", folder, "--cluster-topology", place("none.toml"))
    refuse("is not an address", "--dict", folder, "--announce", "here")
    refuse("--file", "--dict", folder, "--file", place("t.spt"))
    refuse("--max-memory", "--dict", folder, "--max-memory", "1G")
    refuse("needs --dict", "--cluster-topology", place("wrong.toml"))
    refuse("memcached", *full(half + node(2, 'slots = "8192-16383"')), "--memcached", "127.0.0.1:0")
    refuse("none.spd", "--dict", place("none.spd"))
    refuse("english-words.txt", "--dict", cluster.WORDS)
    # A node needs the files of its own shards and no others.
    lacking = place("lacking.spd")
    shutil.copytree(folder, lacking)
    os.remove(os.path.join(lacking, "1-1.spd"))
    halves = topology("halves.toml", node(1, "shards = [1]") + node(2, "shards = [0, 2]"))
    refuse("1-1.spd", "--dict", lacking, "--cluster-topology", halves, "--announce", "127.0.0.1:1")
    refuse("1-1.spd", "--dict", lacking)
    other = serve(servers.free_port(), "--dict", lacking, "--cluster-topology", halves, "--announce", "127.0.0.1:2")
    served = [slot(word) // 5462 for word in WORDS[::999]]
    replies = [ask(other.port, "GET", word) for word in WORDS[::999]]
    assert {1, 0, 2} == set(served)
    assert all((shard == 1) == str(reply).startswith("-MOVED") for shard, reply in zip(served, replies))
    # Slots that nobody has.
    partial = topology("partial.toml", "partial = true\n" + node(1, "shards = [0]"))
    lonely = serve(servers.free_port(), "--dict", folder, "--cluster-topology", partial, "--announce", "127.0.0.1:1")
    assert ask(lonely.port, "GET", "foo") == "-CLUSTERDOWN Hash slot not served" and slot("foo") == 12182
    # A range that splits shards: slots of other nodes are not shown.
    cut = topology("cut.toml", node(1, 'slots = "0-99"') + node(2, 'slots = "100-16383"'))
    small = serve(servers.free_port(), "--dict", folder, "--cluster-topology", cut, "--announce", "127.0.0.1:1")
    keys = ask(small.port, "KEYS", "*")
    assert set(keys) == {word for word in WORDS if slot_of[word] < 100} and 0 < len(keys) < 2000
    assert abs(ask(small.port, "DBSIZE") - len(keys)) < 200
    assert slot(ask(small.port, "RANDOMKEY")) < 100
    assert "DBSIZE is an estimate" in small.output()
    # SIGHUP reads a changed topology; a wrong one changes nothing.
    topology("cut.toml", node(1, 'slots = "0-99"'))
    small.process.send_signal(signal.SIGHUP)
    eventually("a broken topology is logged", lambda: "no node has slots 100-16383" in small.output())
    assert ask(small.port, "CLUSTER", "SLOTS")[0][1] == 99
    topology("cut.toml", node(1, 'slots = "0-199"') + node(2, 'slots = "200-16383"'))
    eventually("the mended topology is read", lambda: ask(small.port, "CLUSTER", "SLOTS")[0][1] == 199)
    for server in (other, lonely, small):
        server.stop()


def encrypted():
    """TLS connections get the addresses for TLS, plain ones the plain addresses; a node may have only TLS."""
    made = servers.certificate(cluster.FOLDER.name)
    if not made:
        print("SKIPPED: a cluster by TLS, as there is no openssl to make a certificate (apt install openssl)")
        return
    certificate, key = made
    folder = cluster.build("secure.spd", 3)
    plain, secure = ([servers.free_port() for _ in range(3)] for _ in range(2))
    tls = lambda number: f'tls = "127.0.0.1:{secure[number]}"'
    file = topology("secure.toml", node(plain[0], "shards = [0]", tls(0), 'name = "a"')
                    + node(plain[1], "shards = [1, 2]", tls(1)) + node(secure[2], 'replica-of = "a"', tls(2)))
    options = ["--dict", folder, "--cluster-topology", file, "--tls-cert", certificate, "--tls-key", key]
    nodes = [serve(plain[n], *options, "--resp-tls", f"127.0.0.1:{secure[n]}") for n in range(2)]
    command = [*servers.PROGRAM, "--resp", "none", "--resp-tls", f"127.0.0.1:{secure[2]}", *options]
    nodes.append(servers.Server(command, secure[2], "splitpoint by TLS alone"))
    context = ssl.create_default_context(cafile=certificate)

    def connect(port):
        client = resp.Connection(port)
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        return client

    by_tls, by_plain = [connect(port) for port in secure], [resp.Connection(port) for port in plain[:2]]
    here, there = (next(word for word in WORDS if (slot_of[word] > 5461) == is_there) for is_there in (False, True))
    for clients, ports in ((by_tls, secure), (by_plain, [*plain[:2], secure[2]])):
        for number, client in enumerate(clients):
            moved = lambda word, owner: f"-MOVED {slot_of[word]} 127.0.0.1:{ports[owner]}"
            assert client.call("GET", here) == (moved(here, 0) if number == 1 else LINE[here])
            assert client.call("GET", there) == (LINE[there] if number == 1 else moved(there, 1))
            # A pipeline of both, a transaction, and keys of two slots.
            replies = client.pipeline([["GET", here], ["GET", there]] * 50)
            assert replies == [client.call("GET", here), client.call("GET", there)] * 50
            assert client.call("MGET", here, there) == CROSS
            rows = client.call("CLUSTER", "SLOTS")
            assert [[each[1] for each in row[2:]] for row in rows] == [[ports[0], ports[2]], [ports[1]]], rows
            lines = client.call("CLUSTER", "NODES").decode().splitlines()
            assert [f"127.0.0.1:{port}@0" in line for port, line in zip(ports, lines)] == [True] * 3, lines
            assert [("myself" in line) for line in lines] == [n == number for n in range(3)]
    shards = by_tls[0].call("CLUSTER", "SHARDS")
    nodes_of = [dict(zip(each[::2], each[1::2])) for shard in shards for each in shard[3]]
    assert [each[b"tls-port"] for each in nodes_of] == [secure[0], secure[2], secure[1]], nodes_of
    assert [each[b"port"] for each in nodes_of] == [plain[0], secure[2], plain[1]]
    if shutil.which("redis-cli"):
        command = ["redis-cli", "-c", "--tls", "--cacert", certificate, "-p", str(secure[0])]
        some = WORDS[::1777]
        lines = subprocess.run(command, input=b"".join(b"GET %s\n" % word for word in some), capture_output=True,
                               timeout=servers.PATIENCE)
        values = [line for line in lines.stdout.splitlines() if not line.startswith(b"->")]
        assert values == [LINE[word] for word in some], (lines.stdout[:300], lines.stderr)
    # Two nodes cannot have one address for TLS.
    both = topology("both.toml", node(plain[0], 'slots = "0-99"', tls(0)) + node(plain[1], 'slots = "100-16383"', tls(0)))
    refuse("the same address", "--dict", folder, "--cluster-topology", both, "--announce", f"127.0.0.1:{plain[0]}")
    for server in nodes:
        assert server.stop() == 0


def generations():
    """A new generation is served without a restart, for all keys of a transaction together; a broken one is not."""
    folder = cluster.build("changing.spd", 3)
    server = serve(servers.free_port(), "--dict", folder)
    stop, counts, failures = threading.Event(), [0] * 4, []

    def read(number):
        client = resp.Connection(server.port)
        generation = 0
        while not stop.is_set():
            if number % 2:
                reply = client.pipeline([["MULTI"], ["GET", "hello"], ["GET", "world"], ["EXEC"]])[-1]
            else:
                reply = client.call("MGET", "hello", "world")
            ages = [0 if reply == [LINE[b"hello"], LINE[b"world"]] else int(value) for value in reply]
            if len(set(ages[:1 if ages[0] == 0 else 2])) != 1 or ages[0] < generation:
                failures.append((generation, reply))
            generation = ages[0]
            counts[number] += 1
        client.close()

    readers = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(4)]
    [reader.start() for reader in readers]
    for generation in range(1, 6):
        batch = place("batch.tsv")
        with open(batch, "w") as file:
            file.write(f"hello\t{-generation}\nworld\t{-generation}\nnew{generation}\t1\n".replace("-", ""))
        cluster.run("dict", "update", folder, batch, folder)
        value = str(generation).encode()
        eventually(f"generation {generation}", lambda: ask(server.port, "GET", "hello") == value)
        assert ask(server.port, "DBSIZE") == len(WORDS) + generation
    # During a scan: keys that were present throughout are found.
    client = resp.Connection(server.port)
    cursor, found = client.call("SCAN", 0, "COUNT", 5000)
    cluster.run("dict", "update", folder, batch, folder)
    eventually("the next generation", lambda: b"dictionary_generation:7\r\n" in ask(server.port, "INFO", "dictionary"))
    while cursor != b"0":
        cursor, keys = client.call("SCAN", cursor, "COUNT", 5000)
        found += keys
    assert set(found) >= set(LINE)
    # WATCH: a new generation may have changed any key.
    assert client.call("WATCH", "hello") == "+OK"
    cluster.run("dict", "update", folder, batch, folder)
    eventually("generation 8", lambda: b"dictionary_generation:8\r\n" in ask(server.port, "INFO", "dictionary"))
    assert client.pipeline([["MULTI"], ["GET", "hello"], ["EXEC"]])[-1] is None
    # A manifest that is damaged, then a shard that is truncated: logged once, and the old generation answers.
    manifest = os.path.join(folder, "manifest")
    with open(manifest, "rb") as file:
        whole = file.read()
    with open(manifest + ".new", "wb") as file:
        file.write(whole.replace(b"generation 8", b"generation 9"))
    os.rename(manifest + ".new", manifest)
    eventually("the error is logged", lambda: "the earlier generation stays" in server.output())
    time.sleep(2.5)  # more than one check by the server
    info = ask(server.port, "INFO", "dictionary").decode()
    assert "dictionary_last_reload_status:err" in info and "checksum" in info, info
    assert ask(server.port, "GET", "hello") == b"5" and ask(server.port, "GET", "zoo") == LINE[b"zoo"]
    with open(manifest + ".new", "wb") as file:
        file.write(whole)
    os.rename(manifest + ".new", manifest)
    eventually("all is well again", lambda: b"status:ok" in ask(server.port, "INFO", "dictionary"))
    assert server.output().count("the earlier generation stays") == 2, server.output()
    stop.set()
    [reader.join() for reader in readers]
    assert not failures and min(counts) > 50, (failures[:3], counts)
    client.close()
    server.stop()
    # A single file instead of a directory is exchanged in the same way.
    file = place("file.spd")
    cluster.run("dict", "build", "--format", "lines", cluster.WORDS, file)
    server = serve(servers.free_port(), "--dict", file)
    assert ask(server.port, "GET", "hello") == b"" and ask(server.port, "DBSIZE") == len(WORDS)
    cluster.run("dict", "update", file, batch, file)
    eventually("the new file", lambda: ask(server.port, "GET", "hello") == b"5")
    server.stop()


def memcached():
    """memcached's lookups work on a dictionary; its writes fail."""
    import socket

    port = servers.free_port()
    server = serve(servers.free_port(), "--dict", place("one.spd"), "--memcached", f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port), timeout=servers.PATIENCE) as connection:
        stream = connection.makefile("rwb")

        def say(text, lines):
            stream.write(text.encode())
            stream.flush()
            return [stream.readline().rstrip(b"\r\n") for _ in range(lines)]

        value = LINE[b"hello"]
        assert say("get hello nope! world\r\n", 5) == [
            b"VALUE hello 0 %d" % len(value), value, b"VALUE world 0 %d" % len(LINE[b"world"]), LINE[b"world"], b"END"]
        assert say("mg hello v\r\n", 2) == [b"VA %d" % len(value), value] and say("mg nope! v\r\n", 1) == [b"EN"]
        for write in ("set a 0 0 1\r\nb", "append hello 0 0 1\r\nb", "delete hello", "incr hello 1", "touch hello 5",
                      "flush_all", "ms a 1\r\nb"):
            [reply] = say(write + "\r\n", 1)
            assert reply == b"SERVER_ERROR a dictionary is served, which is read-only", (write, reply)
        assert say("get hello\r\n", 3)[1] == value
    server.stop()


one_server()
slot_of = {word: slot for word, slot in zip(WORDS, resp.Connection(single.port).pipeline(
    [["CLUSTER", "KEYSLOT", word] for word in WORDS]))}
folder, ports, nodes, file = three_servers()
topologies()
encrypted()
generations()
memcached()
for server in nodes:
    server.stop()
single.stop()
print(f"cluster nodes: {len(WORDS)} words on three nodes and a replica; topologies, TLS, generations, memcached")
sys.exit(0)
