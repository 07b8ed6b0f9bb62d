#!/usr/bin/env python3
"""Users with random rules, here and in Debian's redis: what each may do has to be the same. Also what COMMAND says.

    users_differential.py [SECONDS] [SEED]

Compared are the replies to the rules, to ACL DRYRUN and GETUSER, and to commands that the users send. The order in which
Redis 7.0 lists rules about commands is its own. In COMMAND INFO, some flags and tips about Redis's cluster are left out.
"""

import random
import sys
import time

import servers
from resp import Connection

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
SECONDS = float(NUMBERS[0]) if NUMBERS else 10
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)
USERS = ["alice", "bob", "carol"]
CATEGORIES = "keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow blocking dangerous connection transaction scripting".split()
NAMES = ["get", "set", "del", "config|get", "config", "config|set", "client|id", "client", "hset", "publish", "subscribe", "ping", "eval", "sort", "acl|whoami", "object|encoding", "multi", "exec", "discard", "xgroup|create", "memory|usage"]
# Here these are one command each, in Redis all their subcommands.
ONLY_HERE = {"cluster", "debug"}


def key(r):
    return r.choice(["a", "ab", "b1", "b2", "c", "x", "news"])


def command(r):
    k = lambda: key(r)
    return r.choice([
        lambda: ["GET", k()],
        lambda: ["SET", k(), "1", *r.choice([(), ("GET",), ("EX", "1000")])],
        lambda: ["MSET", k(), "1", k(), "2"],
        lambda: ["MGET", k(), k()],
        lambda: ["DEL", k()],
        lambda: ["STRLEN", k()],
        lambda: ["COPY", k(), k()],
        lambda: ["RENAME", k(), k()],
        lambda: ["EXISTS", k()],
        lambda: ["HSET", "h" + k(), "f", "1"],
        lambda: ["BITFIELD", k(), *r.choice([("GET", "u4", "0"), ("SET", "u4", "0", "1")])],
        lambda: ["SORT", "l" + k(), *r.choice([(), ("STORE", k()), ("GET", "#")])],
        lambda: ["SINTERSTORE", "s" + k(), "t" + k(), "u" + k()],
        lambda: ["LMOVE", "l" + k(), "l" + k(), "LEFT", "LEFT"],
        lambda: ["XGROUP", "CREATE", "x" + k(), "g", "0"],
        lambda: ["OBJECT", "ENCODING", k()],
        lambda: ["MEMORY", "USAGE", "absent"],
        lambda: ["PUBLISH", k(), "1"],
        lambda: ["SPUBLISH", k(), "1"],
        lambda: ["PING"],
        lambda: ["CONFIG", "GET", "databases"],
        lambda: ["ACL", "WHOAMI"],
        lambda: ["CLIENT", "GETNAME"],
        lambda: ["EVAL", "return redis.pcall(unpack(ARGV))", "1", k(), *r.choice([("get", k()), ("set", k(), "1"), ("publish", k(), "1")])],
        lambda: ["MULTI"],
        lambda: ["EXEC"],
        lambda: ["DISCARD"],
        lambda: ["NOTHING"],
    ])()


def rule(r):
    pattern = lambda: r.choice(["*", "a*", "b?", "x", "[ab]*", "news", ""])
    sign = lambda: r.choice("+-")
    return r.choice([
        lambda: r.choice(["on", "on", "off", "nopass", "resetpass", "resetkeys", "resetchannels", "allkeys", "allchannels", "allcommands", "nocommands", "reset", "clearselectors", "x", ""]),
        lambda: r.choice([">pw", "<pw", ">other", "#zz", "!zz", "#" + "0a" * 32]),
        lambda: r.choice(["~", "%R~", "%W~", "%RW~", "%wr~", "%RR~", "%R", "%~", "%X~"]) + pattern(),
        lambda: r.choice(["~", "%R~", "%W~"]) + pattern(),
        lambda: "&" + pattern(),
        lambda: sign() + "@" + r.choice([*CATEGORIES, "all", "nothing"]),
        lambda: sign() + "@" + r.choice(CATEGORIES),
        lambda: sign() + r.choice([*NAMES, "nothing", "config|nothing", "config|get|x", "config|x|y", "nothing|get|x"]),
        lambda: sign() + r.choice(NAMES),
        lambda: "(" + " ".join([sign() + "@" + r.choice(CATEGORIES), "~" + pattern()]) + ")",
        lambda: r.choice(["(", "(+get", "~x)", "()"]),
    ])()


def sorted_rules(user):
    if not isinstance(user, list):
        return user
    fields = dict(zip(user[::2], user[1::2]))
    fields[b"flags"] = [flag for flag in fields[b"flags"] if b"sanitize" not in flag]
    fields.pop(b"commands")
    for name in (b"keys", b"channels"):
        fields[name] = sorted(fields[name].split())
    fields[b"selectors"] = [dict(zip(part[::2], part[1::2])) for part in fields[b"selectors"]]
    for part in fields[b"selectors"]:
        part.pop(b"commands")
    return fields


def text(value):
    return value.decode() if isinstance(value, bytes) else value.lstrip("+") if isinstance(value, str) else value


def plain(value):
    return [plain(part) for part in value] if isinstance(value, list) else text(value)


def facts(entry):
    """The reply of COMMAND INFO for a command, for comparison."""
    name, arity, flags, first, last, step, categories, _, specs, subcommands = plain(entry)
    left_out = {"allow_busy", "no_async_loading", "no_mandatory_keys", "skip_monitor", "skip_slowlog", "no_multi", "noscript", "loading", "stale", "readonly"}
    groups = [[part for name, part in zip(group[::2], group[1::2]) if name != "notes"] for group in specs]
    groups = [[sorted(set(group[0]) - {"incomplete"}), *group[1:]] for group in groups]
    return {
        "name": name,
        "arity": arity,
        "flags": sorted(set(flags) - left_out),
        "keys": (first, last, step),
        "categories": sorted(categories),
        "groups": groups if not name.startswith("xgroup|") else [group[1:] for group in groups],
        "subcommands": {part[0]: facts(part) for part in subcommands},
    }


def compare_commands(mine, theirs):
    known = {entry["name"]: entry for entry in map(facts, theirs.call("COMMAND"))}
    differences, compared = [], 0
    # Of these, more is accepted than in 7.0.
    longer = {"append": "arity", "zrank": "arity", "zrevrank": "arity"}
    for entry in map(facts, mine.call("COMMAND")):
        other = known.get(entry["name"])
        if other is None or entry["name"] in ONLY_HERE:
            continue
        for field, value in entry.items():
            if field == "subcommands":
                for name, subcommand in value.items():
                    if name in other[field]:
                        compared += 1
                        differences += [(name, part, subcommand[part], other[field][name][part]) for part in subcommand if subcommand[part] != other[field][name][part]]
            elif value != other[field] and longer.get(entry["name"]) != field:
                differences.append((entry["name"], field, value, other[field]))
        compared += 1
    for category in CATEGORIES:
        of = lambda server: set(plain(server.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", category)))
        here, there = of(mine), of(theirs)
        everything_there = set(known) | {name for entry in known.values() for name in entry["subcommands"]}
        wrong = {name for name in here - there if name in everything_there}
        if wrong:
            differences.append((category, "has", sorted(wrong)))
    r = random.Random(SEED)
    for _ in range(300):
        words = command(r)
        replies = [server.call("COMMAND", "GETKEYSANDFLAGS", *words) for server in (mine, theirs)]
        flags = lambda reply: [[key, sorted(plain(names))] for key, names in reply] if isinstance(reply, list) else reply
        if flags(replies[0]) != flags(replies[1]):
            differences.append((words, *replies))
    for difference in differences:
        print("  ", *difference)
    if differences:
        sys.exit(f"users: COMMAND says other things than redis's ({len(differences)})")
    print(f"users: COMMAND INFO of {compared} commands is redis's")


def main():
    redis = servers.redis("--enable-debug-command", "yes")
    if redis is None:
        print("SKIPPED: comparison with redis-server, which is not installed (apt install redis-server)")
        return
    mine = servers.splitpoint()
    admins = [Connection(mine.port), Connection(redis.port)]
    compare_commands(*admins)
    r = random.Random(SEED)
    total, history = 0, []

    def same(words, replies, comparable=lambda reply: reply):
        nonlocal total, history
        total += 1
        history = history[-30:] + [(words, *replies)]
        if comparable(replies[0]) != comparable(replies[1]):
            print(f"users: seed {SEED}, command {total}: replies differ. The last commands:")
            for entry in history:
                print("  {!r:.300}\n    splitpoint {!r:.300}\n    redis      {!r:.300}".format(*entry))
            sys.exit(1)

    def both(connections, words, comparable=lambda reply: reply):
        same(words, [connection.call(*words) for connection in connections], comparable)

    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        name = r.choice(USERS)
        rules = [rule(r) for _ in range(r.choice([1, 1, 2, 5]))]
        # Redis 7.0 forgets an open parenthesis at the next one; later versions refuse that, too.
        if sum(word.startswith("(") and not word.endswith(")") for word in rules) > 1:
            continue
        both(admins, ["ACL", "SETUSER", name, *rules])
        both(admins, ["ACL", "GETUSER", name], sorted_rules)
        for _ in range(3):
            both(admins, ["ACL", "DRYRUN", name, *command(r)])
        if r.random() < 0.05:
            both(admins, ["ACL", "DELUSER", name])
            continue
        if r.random() < 0.3:
            both(admins, ["ACL", "SETUSER", name, "on", ">pw", "+ping"])
            clients = [Connection(mine.port), Connection(redis.port)]
            both(clients, ["AUTH", name, r.choice(["pw", "pw", "pw", "wrong"])])
            for _ in range(10):
                # BITFIELD changes the encoding there.
                both(clients, command(r), lambda reply: b"embstr" if reply == b"raw" else reply)
            for connection in clients:
                connection.socket.close()
        if r.random() < 0.02:
            both(admins, ["FLUSHALL"])
    print(f"users: {total} replies are equal to redis's (seed {SEED})")


main()
