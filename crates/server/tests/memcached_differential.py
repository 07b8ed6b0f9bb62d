#!/usr/bin/env python3
"""The same random commands to Debian's memcached and to this server: replies have to be equal, byte for byte.

    memcached_differential.py [--file] [SECONDS] [SEED]

Two connections to each server, a few keys, pipelines of random length, values that are often numbers, wrong lines.
CAS numbers are the servers' own: a command takes the one that its server gave last, and replies are compared by which
of the numbers of a key they hold, the first, the second and so on. Times to live may differ by three seconds: memcached's clock is late on a
busy machine.
"""

import base64
import itertools
import random
import re
import shutil
import socket
import sys
import tempfile
import time

import servers

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
SECONDS = float(NUMBERS[0]) if NUMBERS else 10
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)
STORED_KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"\xff\x01", b"k" * 250]
# Numbers that never lose a digit: whether memcached then changes a number in place, and fills up with spaces, depends
# on whether one of its threads still holds a reply with it. Below 2^63: above it memcached looks for a minus behind the
# value.
BIG, SMALL = b"big", b"small"
KEYS = [*STORED_KEYS, BIG, SMALL]
BINARY = [b"\x00\x01", b"with space", b"\r\n", b"\x00sp\xffm"]
LONG_KEY = b"k" * 251
MARK = b"mn\r\n"
# Above all CAS numbers of both servers.
NO_CAS = b"18446744073709551000"


def value(r):
    kind = r.randrange(10)
    if kind < 5:
        return str(r.choice([0, 1, 9, 10, 99, 100, 2**64, -1, 12345])).encode()
    if kind < 6:
        return r.choice([b"", b"abc", b" 7", b"7 x", b"1.5", b"+3", b"\r\n", b"END\r\n", b"x" * 3000])
    return bytes(r.randrange(256) for _ in range(r.randrange(30)))


def number(r):
    return r.choice([b"0", b"1", b"7", b"100", b"18446744073709551616", b"-1", b"x", b"", b"1x", b"+2"])


def exptime(r):
    far = int(time.time()) + 5_000_000
    return r.choice(
        [b"0", b"0", b"0", b"0", b"-1", b"100", b"200000", b"%d" % far, b"2592000", b"1000000", b"x"]
        + [b"4294967296", b"-2147483648"]
    )


def flags(r):
    return r.choice([b"0", b"0", b"0", b"1", b"4294967295", b"4294967296", b"-1", b"x", b"65536"])


def noreply(r):
    return r.choice([b"", b"", b"", b" noreply"])


def key(r):
    return LONG_KEY if r.randrange(60) == 0 else r.choice(STORED_KEYS)


def stored_key(r):
    return r.choice(STORED_KEYS)


def plain_key(r):
    return r.choice(KEYS)


def store(r):
    name = r.choice([b"set", b"set", b"add", b"replace", b"append", b"prepend"])
    data = value(r)
    length, end = len(data), b"\r\n"
    if r.randrange(30) == 0:
        # The wrong end of the value.
        end = r.choice([b"xx", b"\n\n", b"\r\r"])
    k, f, e = key(r), flags(r), exptime(r)
    if k == LONG_KEY or f in (b"-1", b"x") or e == b"x":
        # The line is an error, and the value would be taken for the next command.
        return b"%s %s %s %s %d%s\r\n" % (name, k, f, e, length, noreply(r))
    return b"%s %s %s %s %d%s\r\n%s%s" % (name, k, f, e, length, noreply(r), data, end)


def small(r):
    data = str(r.choice([1, 9, 10, 99, 100, 12345])).encode() if r.randrange(8) else b"abc"
    if r.randrange(3) == 0:
        return b"ms %s %d%s\r\n%s\r\n" % (SMALL, len(data), words(r, [b"F7", b"T500", b"k", b"ME", b"q"], 4), data)
    name, seconds = r.choice([b"set", b"add", b"replace"]), r.choice([b"0", b"500", b"-1"])
    return b"%s %s %d %s %d%s\r\n%s\r\n" % (name, SMALL, r.choice([0, 3]), seconds, len(data), noreply(r), data)


def cas(r):
    data, k = value(r), stored_key(r)
    number = r.choice([b"{cas:%d}" % KEYS.index(k)] * 3 + [b"0", NO_CAS])
    f, e = r.choice([b"0", b"5"]), r.choice([b"0", b"1000"])
    return b"cas %s %s %s %d %s%s\r\n%s\r\n" % (k, f, e, len(data), number, noreply(r), data)


def get(r):
    if r.randrange(12) == 0:
        return b"%s %s\r\n" % (r.choice([b"get", b"gets"]), keys(r, [23, 70, 130]))
    return b"%s %s\r\n" % (r.choice([b"get", b"get", b"gets"]), keys(r, [1, 1, 2, 5]))


def keys(r, counts):
    return r.choice([b" ", b"  "]).join(plain_key(r) for _ in range(r.choice(counts)))


def words(r, choices, count):
    return b"".join(b" " + word for word in r.sample(choices, min(r.randrange(count), len(choices))))


def opaque(r):
    return r.choice([b"O123", b"Oabc", b"O"])


def ttl_flag(r, letter):
    return letter + r.choice([b"0", b"300", b"100000", b"x", b""])


def mg(r):
    if r.randrange(3) == 0:
        k = base64.b64encode(r.choice(BINARY))
        return b"mg %s b%s\r\n" % (k, words(r, [b"v", b"s", b"t", b"f", b"q", opaque(r)], 6))
    choices = [b"v", b"k", b"s", b"t", b"c", b"f", b"q", b"u", b"h", b"l", opaque(r), b"R30", ttl_flag(r, b"T")]
    choices += [ttl_flag(r, b"N"), r.choice([b"v v", b"!", b"\xfe", b"S1"])] if r.randrange(4) == 0 else []
    return b"mg %s%s\r\n" % (key(r), words(r, choices, 6))


def ms(r):
    data = value(r)
    binary = r.randrange(3) == 0
    k = base64.b64encode(r.choice(BINARY)) if binary else key(r)
    choices = [b"k", b"c", b"q", opaque(r), b"F" + r.choice([b"0", b"9", b"x"]), ttl_flag(r, b"T")]
    choices += [b"M" + r.choice([b"E", b"A", b"P", b"R", b"S", b"", b"xx", b"z"])]
    if not binary and k != LONG_KEY:
        choices += [b"C{cas:%d}" % KEYS.index(k), b"I"]
    if k == LONG_KEY:
        return b"ms %s %d\r\n" % (k, len(data))
    end = b"\r\n" if r.randrange(30) else b"zz"
    return b"ms %s %d%s%s\r\n%s%s" % (k, len(data), b" b" if binary else b"", words(r, choices, 5), data, end)


def md(r):
    k = plain_key(r)
    choices = [b"k", b"q", opaque(r), b"I", b"T200", b"C{cas:%d}" % KEYS.index(k), b"!", b"O" + b"x" * 32]
    return b"md %s%s\r\n" % (k, words(r, choices, 4))


def ma(r):
    # Without T: memcached loses it where the number becomes longer.
    k = r.choice([SMALL, BIG])
    choices = [b"v", b"k", b"t", b"c", b"q", opaque(r), b"C{cas:%d}" % KEYS.index(k)]
    choices += [b"D" + number(r), b"J" + number(r)]
    choices += [b"N0", b"N500", b"M" + r.choice([b"I", b"+", b"z", b""] + [b"D", b"-"] * (k == BIG))]
    if k == BIG:
        choices = [choice for choice in choices if choice[:1] not in b"NJ"]
    return b"ma %s%s\r\n" % (k, words(r, choices, 6))


def command(r):
    return r.choice(COMMANDS)(r)


FAULTS = [
    b"\r\n", b"\n", b"get\r\n", b"set\r\n", b"x\r\n", b"nonsense 1 2\r\n", b"incr a\r\n", b"touch a\r\n", b"mg\r\n",
    b"ms a\r\n",
    b"ms a x\r\n", b"ms a -1\r\n", b"delete\r\n", b"delete a 1\r\n", b"delete a 0 noreply\r\n", b"delete a b c d\r\n",
    b"verbosity\r\n",
    b"set a 0 0 -1\r\n", b"set a 0 0 99999999999999999999\r\n", b"gat\r\n", b"gat x a\r\n", b"mz a\r\n",
    b"get a\0b\r\n", b"flush_all x\r\n",
    b"mg a" + b" Oa" * 20 + b"\r\n", b"GET a\r\n", b"  get   a  \r\n", b"touch a x\r\n", b"cas a 0 0 1\r\n", b"me\r\n",
    b"me absent\r\n",
]

COMMANDS = [store] * 6 + [cas] * 3 + [get] * 5 + [mg] * 6 + [ms] * 5 + [md] * 2 + [ma] * 3 + [
    lambda r: b"incr %s %s%s\r\n" % (r.choice([SMALL, SMALL, LONG_KEY]), number(r), noreply(r)),
    lambda r: b"%s %s %s%s\r\n" % (r.choice([b"incr", b"decr"]), BIG, number(r), noreply(r)),
    small,
    small,
    lambda r: b"set %s 0 0 19%s\r\n5000000000000000000\r\n" % (BIG, noreply(r)),
    lambda r: b"touch %s %s%s\r\n" % (key(r), exptime(r), noreply(r)),
    lambda r: b"%s %s %s\r\n" % (r.choice([b"gat", b"gats"]), exptime(r), keys(r, [1, 2])),
    lambda r: b"delete %s%s\r\n" % (key(r), noreply(r)),
    lambda r: b"version\r\n",
    lambda r: b"verbosity 0%s\r\n" % noreply(r),
    lambda r: r.choice(FAULTS),
    lambda r: b"set large 0 0 3000000\r\n" + b"x" * 3000000 + b"\r\n" if r.randrange(40) == 0 else b"version\r\n",
    lambda r: b"flush_all%s\r\n" % r.choice([b"", b" 0", b" noreply"]) if r.randrange(10) == 0 else b"version\r\n",
]


class Side:
    """A server, and the CAS numbers that it returned."""

    def __init__(self, port):
        self.sockets = [socket.create_connection(("127.0.0.1", port), timeout=servers.PATIENCE) for _ in range(2)]
        self.buffers = [b"", b""]
        self.last = {}
        self.names = {}

    def send(self, which, commands):
        filled = [re.sub(rb"\{cas:(\d)\}", lambda m: self.last.get(int(m[1]), NO_CAS), c) for c in commands]
        self.sockets[which].sendall(b"".join(filled) + MARK)
        return self.read(which)

    def read(self, which):
        """Reads up to the answer to the mark; values may contain anything, so they are skipped by length."""
        parts, last_key = [], None
        while True:
            line = self.line(which)
            if line == b"MN":
                return parts
            fields = line.split(b" ")
            if fields[0] == b"VALUE":
                if len(fields) == 5:
                    fields[4] = self.name(fields[1], fields[4])
                data = self.take(which, int(fields[3]) + 2)
                parts.append(b" ".join(fields) + b"\r\n" + data)
                continue
            data = b""
            if fields[0] == b"VA":
                data = b"\r\n" + self.take(which, int(fields[1]) + 2)
            fields = [fields[0]] + [self.meta_word(word) for word in fields[1:]]
            parts.append(b" ".join(fields) + data)

    def meta_word(self, word):
        if re.fullmatch(rb"c\d+", word) and word != b"c0":
            return b"c" + (b"#" if not self.names.get(word[1:]) else self.names[word[1:]])
        return word

    def name(self, key, cas):
        """The n-th number of this key."""
        if cas not in self.names:
            count = self.names.get((key,), 0) + 1
            self.names[(key,)] = count
            self.names[cas] = b"<%d>" % count
        if key in KEYS:
            self.last[KEYS.index(key)] = cas
        return self.names[cas]

    def line(self, which):
        while b"\r\n" not in self.buffers[which]:
            self.fill(which)
        line, self.buffers[which] = self.buffers[which].split(b"\r\n", 1)
        return line

    def take(self, which, count):
        while len(self.buffers[which]) < count:
            self.fill(which)
        data, self.buffers[which] = self.buffers[which][:count], self.buffers[which][count:]
        return data

    def fill(self, which):
        data = self.sockets[which].recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the server")
        self.buffers[which] += data


def alike(ours, theirs):
    if ours == theirs:
        return True
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs):
        head, other_head = one.split(b"\r\n")[0].split(b" "), other.split(b"\r\n")[0].split(b" ")
        if len(head) != len(other_head) or one.split(b"\r\n")[1:] != other.split(b"\r\n")[1:]:
            return False
        for a, b in zip(head, other_head):
            if a == b:
                continue
            times = re.fullmatch(rb"[tl]\d+", a) and a[:1] == b[:1] and b[1:].isdigit()
            if not times or abs(int(a[1:]) - int(b[1:])) > 10:
                return False
    return True


def main():
    program = shutil.which("memcached")
    if not program:
        print("SKIPPED: memcached's replies compared, because memcached is not installed")
        return
    print(f"memcached_differential: seed {SEED}")
    port = servers.free_port()
    as_root = ["-u", "nobody"]
    theirs = servers.Server([program, "-l", "127.0.0.1", "-p", str(port), "-t", "2", *as_root], port, "memcached")
    ours_port = servers.free_port()
    folder = tempfile.TemporaryDirectory()
    file_options = ["--file", f"{folder.name}/t.spt"] if "--file" in sys.argv else []
    servers.splitpoint("--memcached", f"127.0.0.1:{ours_port}", "--max-value", "1M", *file_options)
    sides = [Side(ours_port), Side(theirs.port)]
    r = random.Random(SEED)
    # From here on times of use are kept.
    for side in sides:
        side.send(0, [b"mg a h\r\n"])
    end, rounds, count, recent = time.monotonic() + SECONDS, 0, 0, []
    while time.monotonic() < end:
        which = r.randrange(2)
        commands = [command(r) for _ in range(r.choice([1, 1, 1, 2, 5, 20]))]
        # A get with a key that is too long drops what memcached has not yet sent of earlier replies.
        if any(c.startswith((b"get", b"gat")) and LONG_KEY in c for c in commands):
            commands = commands[:1]
        recent = recent[-30:] + commands
        ours, theirs = (side.send(which, commands) for side in sides)
        if not alike(ours, theirs):
            for c in recent[-40:]:
                print("  sent", c[:60])
            pairs = itertools.zip_longest(ours, theirs, fillvalue=b"nothing")
            first = next(pair for pair in pairs if not alike(pair[:1], pair[1:]))
            print("  ours  ", first[0][:200], "\n  theirs", first[1][:200])
            sys.exit(f"memcached_differential: replies differ after {count} commands; seed {SEED}")
        rounds += 1
        count += len(commands)
    if count < 200:
        sys.exit(f"memcached_differential: only {count} commands")
    place = "in a file" if file_options else "in memory"
    print(f"memcached_differential: {count} commands in {rounds} pipelines, {place}, equal replies")


main()
