"""A RESP client for the tests, without a library, so that no byte is hidden."""

import socket


class Connection:
    def __init__(self, port, timeout=600):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, *commands):
        self.socket.sendall(b"".join(encode(command) for command in commands))

    def call(self, *words):
        self.send(words)
        return self.reply()

    def pipeline(self, commands):
        self.send(*commands)
        return [self.reply() for _ in commands]

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the server")
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.fill()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def reply(self):
        """Bytes for bulk strings, str for status, errors and doubles (with their sign), int, list, None."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind in b"+-":
            return line.decode("utf-8", "backslashreplace")
        if kind == b":":
            return int(rest)
        if kind == b",":
            return "," + rest.decode()
        if kind == b"_":
            return None
        if kind in b"$=":
            length = int(rest)
            return None if length < 0 else self.take(length + 2)[:-2]
        if kind in b"*~>":
            length = int(rest)
            return None if length < 0 else [self.reply() for _ in range(length)]
        if kind == b"%":
            return {"map": [(self.reply(), self.reply()) for _ in range(int(rest))]}
        raise ValueError(f"not RESP: {line!r}")

    def close(self):
        self.socket.close()


def encode(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
