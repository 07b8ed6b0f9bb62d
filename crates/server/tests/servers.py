"""Starts the servers that the tests talk to, on ports that are free, and ends them."""

import atexit
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ.get("SPLITPOINT_SERVE", "target/debug/splitpoint serve").split()
started = []


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, command, port, name, limit_file_bytes=None):
        self.port, self.name, self.command = port, name, command
        self.log = tempfile.TemporaryFile()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file_bytes, limit_file_bytes))

        # Python ignores the signal that a write beyond the limit sends; so does the server then.
        limited = {"preexec_fn": limit, "restore_signals": False} if limit_file_bytes else {}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, **limited)
        started.append(self)
        self.wait()

    def wait(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.log.seek(0)
        sys.exit(f"{self.name} did not start: {' '.join(self.command)}\n{self.log.read().decode()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def output(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")


def splitpoint(*options, limit_file_bytes=None):
    port = free_port()
    command = [*PROGRAM, "--resp", f"127.0.0.1:{port}", *map(str, options)]
    return Server(command, port, "splitpoint", limit_file_bytes)


def redis(*options):
    """Debian's redis, or None where it is not installed."""
    program = shutil.which("redis-server")
    if not program:
        return None
    port = free_port()
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [program, "--port", str(port), "--save", "", "--bind", "127.0.0.1", "--dir", folder, *map(str, options)]
    return Server(command, port, "redis-server")


@atexit.register
def end_all():
    for server in started:
        if server.process.poll() is None:
            server.kill()
