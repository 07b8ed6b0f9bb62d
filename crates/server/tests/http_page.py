#!/usr/bin/env python3
"""The status page and its figures: over plain HTTP, and drawn by headless Chromium where it is installed.

    http_page.py [SCREENSHOT.png]
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import servers
from resp import Connection

# A key and a client's name that would be a script, were they not shown as text.
HOSTILE = "<img src=x onerror=document.title='owned'>"


def expect(condition, what):
    if not condition:
        sys.exit(f"http_page: {what}")


def start(*options):
    port = servers.free_port()
    return servers.splitpoint("--http", f"127.0.0.1:{port}", *options), port


def get(port, path, method="GET", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=servers.PATIENCE)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer


def metrics(port):
    status, text, _ = get(port, "/metrics")
    expect(status == 200, f"/metrics: {status}")
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            expect(re.fullmatch(r"# (HELP|TYPE) splitpoint_[a-z_]+ .+", line), f"/metrics: {line}")
            continue
        match = re.fullmatch(r"(splitpoint_[a-z_]+(?:\{[^}]*\})?) (-?[0-9.e+-]+)", line)
        expect(match, f"/metrics: {line}")
        expect(match[1] not in found, f"/metrics has {match[1]} twice")
        found[match[1]] = float(match[2])
    return found


def figures(server, port):
    before = metrics(port)
    redis = Connection(server.port)
    redis.pipeline([("SET", f"key{n}", "x" * 20) for n in range(20000)])
    redis.pipeline([("GET", f"key{n}") for n in range(500, 21000)])
    redis.call("CLIENT", "SETNAME", "a-client")
    redis.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
    redis.call("GET", HOSTILE.replace(" ", "_"))
    redis.call("CONFIG", "SET", "slowlog-log-slower-than", "1000000")
    after = metrics(port)
    expect(after["splitpoint_hits_total"] - before["splitpoint_hits_total"] == 19500, "hits")
    expect(after["splitpoint_misses_total"] - before["splitpoint_misses_total"] == 1001, "misses")
    expect(after['splitpoint_keys{db="0"}'] == 20000, "keys")
    sets = 'splitpoint_command_duration_seconds_%s{command="set"%s}'
    expect(after[sets % ("count", "")] == 20000, "calls of SET")
    expect(after[sets % ("bucket", ',le="+Inf"')] == 20000, "the last bucket")
    buckets = [value for name, value in after.items() if 'bucket{command="set"' in name]
    expect(buckets == sorted(buckets), "buckets are cumulative")
    after_load = lambda: [s for s in json.loads(get(port, "/status.json")[1])["samples"] if s["commands_per_s"] > 1000]
    servers.eventually("a sample of the load", after_load)
    page = json.loads(get(port, "/status.json")[1])
    expect(page["keys"] == [[0, 20000]], page["keys"])
    expect(sum(n for _, n in page["buckets"]) > 100, "the histogram of buckets")
    expect(any(c["name"] == "a-client" for c in page["clients"]), "clients")
    expect(any("onerror" in s["request"] for s in page["slow"]), "the slow log")
    expect(max(s["commands_per_s"] for s in page["samples"]) > 1000, "throughput")
    expect(max(s["p99_us"] for s in page["samples"]) > 0, "latency")
    last = page["samples"][-1]["at_ms"]
    newer = json.loads(get(port, f"/status.json?since={last}")[1])["samples"]
    expect(all(s["at_ms"] > last for s in newer), "samples since")


def refusals(port):
    expect(get(port, "/health")[:2] == (200, "ok\n"), "/health")
    expect(get(port, "/nothing")[0] == 404, "an unknown path")
    expect(get(port, "/", headers={"Host": "rebound.example"})[0] == 421, "a foreign host")
    expect(get(port, "/", "HEAD")[1] == "", "HEAD has no body")
    expect("default-src 'none'" in get(port, "/")[2].getheader("content-security-policy"), "the policy of the page")
    # A body is not read: the answer comes first, and then the connection is closed.
    with socket.create_connection(("127.0.0.1", port), timeout=servers.PATIENCE) as raw:
        raw.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n")
        expect(raw.recv(100).startswith(b"HTTP/1.1 405"), "POST")
        sent = 0
        try:
            while sent < 200 << 20:
                sent += raw.send(b"x" * (1 << 16))
        except OSError:
            pass
        expect(sent < 50 << 20, "the server reads a body")
    with socket.create_connection(("127.0.0.1", port), timeout=servers.PATIENCE) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000)
        try:
            expect(not raw.recv(100).startswith(b"HTTP/1.1 200"), "a head without end")
        except ConnectionResetError:
            pass


def password():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("secret")
        file.flush()
        server, port = start("--password-file", file.name)
        expect(get(port, "/metrics")[0] == 401, "no password")
        expect(get(port, "/metrics", headers={"Authorization": "Basic dTpzZWNyZXQ="})[0] == 200, "the password")
        admin = Connection(server.port)
        admin.call("AUTH", "secret")
        for rules, allowed in [(["+info", "+client|list", "+slowlog|get"], True), (["+@all", "-info"], False)]:
            admin.call("ACL", "SETUSER", "watcher", "reset", "on", ">pw", *rules)
            for path in ("/metrics", "/status.json", "/"):
                status = get(port, path, headers={"Authorization": "Basic d2F0Y2hlcjpwdw=="})[0]
                expect(status == (200 if allowed else 401), f"{path} of a user with {rules}: {status}")
        server.stop()
    server, port = start()
    Connection(server.port).call("ACL", "SETUSER", "default", "-info")
    expect(get(port, "/metrics")[0] == 401, "default may not see the pages")
    server.stop()
    command = [*servers.PROGRAM, "--resp", "127.0.0.1:0", "--http", "0.0.0.0:0"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE)
    expect(answer.returncode != 0 and "password" in answer.stderr, "a public address without a password")


def browser():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def drawn(port, program, folder, *options):
    with open(os.path.join(folder, "said"), "wb") as said:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-extensions", f"--user-data-dir={folder}/profile"]
        command += ["--window-size=1280,1500", *options, f"http://127.0.0.1:{port}/"]
        environment = {**os.environ, "HOME": folder}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=said, timeout=servers.PATIENCE, env=environment)
    return done.stdout.decode("utf-8", "replace")


def in_a_browser(server, port, screenshot):
    program = browser()
    if not program:
        print("SKIPPED: the status page in a browser, because Chromium is not installed")
        return
    stop = threading.Event()

    def load():
        redis = Connection(server.port)
        redis.call("CLIENT", "SETNAME", HOSTILE.replace(" ", "/"))
        while not stop.is_set():
            redis.pipeline([("GET", f"key{n}") for n in range(500)])
            redis.pipeline([("SET", f"key{n}", "y" * 50) for n in range(100)])
            time.sleep(0.02)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        samples = lambda: len(json.loads(get(port, "/status.json")[1])["samples"]) >= 4
        servers.eventually("four samples", samples)
        with tempfile.TemporaryDirectory() as folder:
            dom = drawn(port, program, folder, "--virtual-time-budget=4000", "--dump-dom")
            if screenshot:
                drawn(port, program, folder, "--virtual-time-budget=4000", f"--screenshot={screenshot}")
    finally:
        stop.set()
        thread.join()
    expect("<title>splitpoint</title>" in dom, f"the title: {dom[:500]}")
    expect(re.search(r'id="rate">[0-9.]+( k| M)?<', dom), "the rate of commands")
    for chart in ("throughput", "latency", "memories"):
        points = re.search(rf'id="{chart}".*?<polyline points="([^"]*)"', dom, re.S)
        expect(points and points[1].count(",") >= 3, f"the line of {chart}")
    expect(len(re.findall("<rect ", dom)) >= 5, "the bars of the buckets")
    expect(re.search(r"<td[^>]*>set</td>", dom) and re.search(r"<td[^>]*>get</td>", dom), "the commands")
    expect("&lt;img/src=x" in dom and "<img" not in dom, "a client's name is text")
    expect("&lt;img_src=x" in dom, "the slow log")
    without_faults(dom)
    print("http_page: drawn by a browser")


def of_a_dictionary():
    """A server of a dictionary has pages too: its keys and its generation, but no buckets or memory of a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "words.spd")
        program = [part for part in servers.PROGRAM if part != "serve"]
        words = os.path.join("data", "english-words.txt")
        build = [*program, "dict", "build", "--format", "lines", "--number", "--shards", "2", words, path]
        subprocess.run(build, check=True, capture_output=True, timeout=servers.PATIENCE)
        server, port = start("--dict", path)
        redis = Connection(server.port)
        redis.pipeline([("GET", "hello"), ("GET", "nope!"), ("SET", "a", "b")] * 1000)
        keys = redis.call("DBSIZE")
        found = metrics(port)
        expect(found['splitpoint_keys{db="0"}'] == keys, "keys of a dictionary")
        expect(found["splitpoint_hits_total"] == 1000 and found["splitpoint_misses_total"] == 1000, "hits of a dictionary")
        expect(found["splitpoint_errors_total"] == 1000, "refused writes")
        expect(found["splitpoint_dictionary_generation"] == 1 and found["splitpoint_dictionary_open_shards"] == 2, "shards")
        expect(found["splitpoint_dictionary_reload_failed"] == 0 and found["splitpoint_payload_bytes"] > keys, "reloads")
        servers.eventually("samples", lambda: len(json.loads(get(port, "/status.json")[1])["samples"]) >= 4)
        page = json.loads(get(port, "/status.json")[1])
        expect(page["keys"] == [[0, keys]] and page["buckets"] == [], "the figures of a dictionary")
        shown = page["dictionary"]
        expect((shown["generation"], shown["shards"], shown["slots"]) == (1, 2, "0-16383"), f"the dictionary: {shown}")
        expect(shown["failure"] is None and page["file"] == path, f"the dictionary: {page['file']}, {shown}")
        expect(get(port, "/health")[:2] == (200, "ok\n"), "/health of a dictionary")
        # A generation that cannot be served is reported.
        with open(os.path.join(path, "manifest"), "ab") as manifest:
            manifest.write(b"damaged")
        failed = lambda: json.loads(get(port, "/status.json")[1])["dictionary"]["failure"]
        servers.eventually("the failure is shown", failed)
        expect(metrics(port)["splitpoint_dictionary_reload_failed"] == 1, "a failed reload in the metrics")
        if browser():
            with tempfile.TemporaryDirectory() as profile:
                dom = drawn(port, browser(), profile, "--virtual-time-budget=4000", "--dump-dom")
            without_faults(dom)
            for text in ("generation of the dictionary", "0-16383", "read-only", "manifest"):
                expect(text in dom, f"the page of a dictionary lacks {text}")
            expect(re.search(r'<section[^>]*hidden[^>]*><h2>Buckets', dom), "a dictionary has no buckets to show")
        expect(server.stop() == 0, "the end of a server of a dictionary")


def without_faults(dom):
    for fault in ("NaN", "undefined", "no answer from the server", "waiting for figures"):
        expect(fault not in re.sub(r"<script.*?</script>", "", dom, flags=re.S), fault)


server, port = start()
figures(server, port)
refusals(port)
in_a_browser(server, port, sys.argv[1] if len(sys.argv) > 1 else None)
server.stop()
password()
of_a_dictionary()
print("http_page: as expected")
