#!/usr/bin/env python3
"""redis-cli, redis-benchmark and hiredis, where they are installed."""

import os
import shutil
import subprocess
import sys
import tempfile

import servers

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main():
    server = servers.splitpoint("--unix", os.path.join(tempfile.gettempdir(), f"splitpoint-{os.getpid()}.sock"))
    port = str(server.port)
    if shutil.which("redis-cli"):
        cli = lambda *words, **options: run("redis-cli", "-p", port, *words, **options).strip()
        assert cli("SET", "k", "v") == "OK" and cli("GET", "k") == "v"
        assert cli("-3", "HELLO", "3").startswith("server")
        assert cli("--scan") == "k" and cli("INFO", "server").startswith("# Server")
        assert cli(input="MULTI\nSET a 1\nINCR a\nEXEC\n").split() == ["OK", "QUEUED", "QUEUED", "OK", "2"]
        text = "".join(f"*3\r\n$3\r\nSET\r\n$5\r\np{n:04}\r\n$1\r\nx\r\n" for n in range(5000))
        assert "replies: 5000" in run("redis-cli", "-p", port, "--pipe", input=text)
        assert cli("DBSIZE") == "5002"
        assert "biggest string" in cli("--bigkeys").lower().replace("largest", "biggest")
        print("command line: redis-cli")
    else:
        print("SKIPPED: redis-cli, which is not installed (apt install redis-tools)")
    if shutil.which("redis-benchmark"):
        names = "ping_inline,ping_mbulk,set,get,incr,mset"
        out = run("redis-benchmark", "-p", port, "-n", "20000", "-P", "16", "-r", "1000", "-t", names, "--csv")
        assert len([line for line in out.splitlines() if line.startswith('"') and '"test"' not in line]) >= 6, out
        run("redis-benchmark", "-p", port, "-n", "5000", "-c", "10", "-t", "set,get", "-3", "-q")
        run("redis-benchmark", "-p", port, "-n", "5000", "append", "__rand_int__", "x")
        print("command line: redis-benchmark")
    else:
        print("SKIPPED: redis-benchmark, which is not installed (apt install redis-tools)")
    if os.path.exists("/usr/include/hiredis/hiredis.h") and shutil.which("cc"):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "hiredis_client")
            run("cc", "-O1", "-o", program, os.path.join(HERE, "hiredis_client.c"), "-lhiredis")
            run(program, port)
        print("command line: hiredis")
    else:
        print("SKIPPED: hiredis, which is not installed (apt install libhiredis-dev)")
    server.stop()


main()
