"""Starts servers of a dictionary for the cluster tests, and makes their content: words and their line numbers."""

import os
import subprocess
import tempfile

import resp
import servers
from servers import eventually  # noqa: F401, for those who import it from here

BUILDER = os.environ.get("SPLITPOINT", servers.PROGRAM[0] if len(servers.PROGRAM) > 1 else f"{servers.BUILT}/debug/splitpoint")
WORDS = "data/english-words.txt"
FOLDER = tempfile.TemporaryDirectory()


def place(name):
    return os.path.join(FOLDER.name, name)


def words():
    with open(WORDS, "rb") as file:
        return file.read().splitlines()


def run(*command, refused=None):
    """The output of a command; if it must fail, checks the words in its message."""
    done = subprocess.run([BUILDER, *map(str, command)], capture_output=True, text=True, timeout=servers.PATIENCE)
    if refused is not None:
        assert done.returncode != 0 and refused in done.stderr, (command, done.returncode, done.stderr)
        return done.stderr
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def build(name, shards, *options):
    run("dict", "build", "--format", "lines", "--number", "--shards", shards, *options, WORDS, place(name))
    return place(name)


def topology(name, text):
    with open(place(name), "w") as file:
        file.write(text)
    return place(name)


def node(port, share, *lines):
    return "\n".join(["[[node]]", f'address = "127.0.0.1:{port}"', share, *lines, ""])


def serve(port, *options):
    command = [*servers.PROGRAM, "--resp", f"127.0.0.1:{port}", *map(str, options)]
    return servers.Server(command, port, "splitpoint")


def refuse(words, *options):
    """A server that must fail to start, with a message."""
    command = [*servers.PROGRAM, "--resp", f"127.0.0.1:{servers.free_port()}", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=servers.PATIENCE)
    assert done.returncode != 0 and words in done.stderr, (words, done.returncode, done.stderr)
    return done.stderr


def ask(port, *command):
    connection = resp.Connection(port)
    try:
        return connection.call(*command)
    finally:
        connection.close()
