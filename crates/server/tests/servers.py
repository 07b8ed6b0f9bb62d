"""Starts the servers that the tests talk to, on free ports, and stops them."""

import atexit
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Cargo's target directory.
BUILT = subprocess.run([".ci/built"], check=True, capture_output=True, text=True).stdout.strip()
PROGRAM = os.environ.get("SPLITPOINT_SERVE", f"{BUILT}/debug/splitpoint serve").split()
# The longest time that a busy machine may take for what normally takes milliseconds. Tests wait for a condition, so
# only a failure takes this long.
PATIENCE = 600
started, handed_out = [], set()


def free_port():
    """A port that the system assigns to no connection, and no other test run is likely to choose."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        last = int(file.read().split()[0]) - 1
    for _ in range(1000):
        port = random.SystemRandom().randint(min(10_000, last - 100), last)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in handed_out:
            handed_out.add(port)
            return port
    sys.exit(f"no free port below {last}")


def eventually(what, holds, seconds=PATIENCE):
    """Waits until `holds()`."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"not within {seconds} s: {what}")
        time.sleep(0.02)


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
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                # Any answer, even the end of the stream. It is served only when all its ports are open.
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                    probe.sendall(b"PING\r\n")
                    probe.recv(100)
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
            return self.process.wait(timeout=PATIENCE)
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


def certificate(folder, name="cert"):
    """A new certificate for this machine and its key, as PEM files; None where there is no openssl."""
    if not shutil.which("openssl"):
        return None
    files = os.path.join(folder, f"{name}.pem"), os.path.join(folder, f"{name}-key.pem")
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    make += ["-addext", "basicConstraints=critical,CA:FALSE"]  # some clients refuse an authority as a server
    subprocess.run([*make, "-keyout", files[1], "-out", files[0]], check=True, capture_output=True)
    return files


@atexit.register
def end_all():
    for server in started:
        if server.process.poll() is None:
            server.kill()
