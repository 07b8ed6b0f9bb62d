#!/usr/bin/env python3
"""Clients that wait for elements of lists and sorted sets, or entries of streams: the same scenes with Debian's redis and this server, in memory and over a file.

Each scene returns the replies of its clients in a fixed order. They must equal the replies expected here, and those
of redis.
"""

import os
import tempfile

import servers
from resp import Connection


class Scene:
    def __init__(self, server):
        self.server, self.connections = server, []
        self.control = self.client()
        self.control.call("FLUSHALL")

    def client(self, *hello):
        connection = Connection(self.server.port)
        self.connections.append(connection)
        if hello:
            connection.call("HELLO", *hello)
        return connection

    def blocked(self):
        info = self.control.call("INFO", "clients").decode()
        return next(int(line.split(":")[1]) for line in info.splitlines() if line.startswith("blocked_clients:"))

    def waiting(self, *words, hello=()):
        """A client that waits in this command."""
        before, connection = self.blocked(), self.client(*hello)
        connection.send(words)
        servers.eventually(f"{words} waits", lambda: self.blocked() == before + 1)
        return connection

    def close(self):
        for connection in self.connections:
            connection.close()


def the_client_that_waited_longest_is_served_first(scene):
    waiting = [scene.waiting("BLPOP", "list", "0") for _ in range(3)]
    pushed = scene.control.pipeline([("RPUSH", "list", "a", "b"), ("LLEN", "list"), ("LPUSH", "list", "c"), ("EXISTS", "list")])
    return pushed + [client.reply() for client in waiting]


def a_push_of_many_is_taken_from_its_ends(scene):
    waiting = [scene.waiting("BLPOP", "list", "0"), scene.waiting("BRPOP", "list", "0"), scene.waiting("BLMPOP", "0", "2", "x", "list", "LEFT", "COUNT", "2")]
    pushed = scene.control.pipeline([("LPUSH", "list", *"abcdef"), ("LRANGE", "list", "0", "-1")])
    return pushed + [client.reply() for client in waiting]


def a_key_of_several_and_a_wrong_type_in_between(scene):
    client = scene.waiting("BLPOP", "one", "two", "0", hello=("3",))
    replies = scene.control.pipeline([("SET", "one", "x"), ("DEL", "one"), ("HSET", "two", "a", "b"), ("RPUSH", "three", "y"), ("DEL", "two"), ("RENAME", "three", "two"), ("EXISTS", "two")])
    return replies + [client.reply()]


def what_a_client_moves_serves_the_next(scene):
    first = scene.waiting("BLMOVE", "a", "b", "LEFT", "RIGHT", "0")
    second = scene.waiting("BRPOPLPUSH", "b", "c", "0")
    third = scene.waiting("BLPOP", "c", "0")
    return [scene.control.call("RPUSH", "a", "x"), first.reply(), second.reply(), third.reply(), scene.control.call("DBSIZE")]


def a_destination_of_another_type_is_an_error_and_nothing_is_lost(scene):
    client = scene.waiting("BLMOVE", "a", "b", "LEFT", "RIGHT", "0")
    return [*scene.control.pipeline([("SET", "b", "x"), ("RPUSH", "a", "1"), ("LRANGE", "a", "0", "-1")]), client.reply()]


def a_transaction_pushes_as_one_change(scene):
    client = scene.waiting("BLMPOP", "0", "1", "list", "LEFT", "COUNT", "10")
    replies = scene.control.pipeline([("MULTI",), ("RPUSH", "list", "a"), ("RPUSH", "list", "b"), ("LPOP", "list"), ("EXEC",)])
    return [*replies, client.reply(), scene.control.call("EXISTS", "list")]


def in_a_transaction_nothing_waits(scene):
    return scene.control.pipeline([("MULTI",), ("BLPOP", "no", "0"), ("BLMOVE", "no", "a", "LEFT", "LEFT", "0"), ("BLMPOP", "0", "1", "no", "LEFT"), ("RPUSH", "l", "1"), ("BRPOP", "no", "l", "0"), ("EXEC",)])


def time_is_limited(scene):
    commands = [("BLPOP", "no", "0.01"), ("BLMOVE", "no", "a", "LEFT", "LEFT", "0.01"), ("BLMPOP", "0.01", "1", "no", "LEFT"), ("PING",)]
    wrong = [("BLPOP", "no", "x"), ("BLPOP", "no", "-1"), ("BLPOP", "no", "nan"), ("BLMPOP", "0", "0", "no", "LEFT"), ("BLMOVE", "a", "b", "UP", "LEFT", "0"), ("BLPOP", "no")]
    return scene.control.pipeline([*commands, *wrong])


def a_pipeline_goes_on_after_the_wait(scene):
    client = scene.client()
    client.send(("SET", "a", "1"), ("BLPOP", "list", "0"), ("GET", "a"), ("BLPOP", "list", "0"), ("PING",))
    servers.eventually("it waits", lambda: scene.blocked() == 1)
    first = [client.reply(), scene.control.call("RPUSH", "list", "x"), client.reply(), client.reply()]
    servers.eventually("it waits again", lambda: scene.blocked() == 1)
    return [*first, scene.control.call("RPUSH", "list", "y"), client.reply(), client.reply()]


def a_reply_that_is_not_wanted_is_dropped_after_the_wait(scene):
    clients = [scene.client() for _ in range(2)]
    for number, (client, wanted) in enumerate(zip(clients, ("SKIP", "OFF"))):
        client.send(("CLIENT", "REPLY", wanted), ("BLPOP", f"list{number}", "0"))
        servers.eventually("BLPOP waits", lambda: scene.blocked() == number + 1)
    scene.control.call("RPUSH", "list0", "a")
    scene.control.call("RPUSH", "list1", "b")
    clients[0].send(("PING",))
    clients[1].send(("PING",), ("CLIENT", "REPLY", "ON"))
    return [client.reply() for client in clients]


def a_client_that_is_gone_takes_nothing(scene):
    gone = scene.waiting("BLPOP", "list", "0")
    stays = scene.waiting("BLPOP", "list", "0")
    gone.close()
    servers.eventually("it is gone", lambda: scene.blocked() == 1)
    return [scene.control.call("RPUSH", "list", "a", "b"), stays.reply(), scene.control.call("LRANGE", "list", "0", "-1")]


def another_client_ends_the_wait(scene):
    replies = []
    for how in ([], ["TIMEOUT"], ["ERROR"]):
        client = scene.client()
        number = client.call("CLIENT", "ID")
        client.send(("BLPOP", "list", "0"))
        servers.eventually("it waits", lambda: scene.blocked() == 1)
        replies += [scene.control.call("CLIENT", "UNBLOCK", number, *how), client.reply(), scene.control.call("CLIENT", "UNBLOCK", number)]
    return replies


def a_watched_list_changes_for_the_client_that_waits(scene):
    watcher = scene.client()
    watcher.call("WATCH", "list")
    client = scene.waiting("BLPOP", "list", "0")
    replies = [scene.control.call("RPUSH", "list", "x"), client.reply()]
    return [*replies, *watcher.pipeline([("MULTI",), ("PING",), ("EXEC",)])]


def the_client_that_waits_for_a_sorted_set_gets_the_least_or_greatest_element(scene):
    waiting = [scene.waiting("BZPOPMIN", "x", "zset", "0"), scene.waiting("BZPOPMAX", "zset", "0", hello=("3",)), scene.waiting("BZMPOP", "0", "2", "x", "zset", "MIN", "COUNT", "2")]
    added = scene.control.pipeline([("ZADD", "zset", "1.5", "a", "2", "b", "3", "c", "-1", "d", "7", "e"), ("ZRANGE", "zset", "0", "-1", "WITHSCORES")])
    return added + [client.reply() for client in waiting]


def those_who_wait_for_another_type_do_not_stand_in_the_way(scene):
    of_list, of_zset = scene.waiting("BLPOP", "key", "0"), scene.waiting("BZPOPMIN", "key", "0")
    replies = [scene.control.call("ZADD", "key", "1", "a"), of_zset.reply()]
    of_zset = scene.waiting("BZPOPMAX", "key", "0")
    return [*replies, scene.control.call("RPUSH", "key", "x"), of_list.reply(), scene.control.call("ZADD", "key", "2", "b", "3", "c"), of_zset.reply(), scene.control.call("ZCARD", "key")]


def a_sorted_set_that_comes_from_elsewhere_serves(scene):
    replies = []
    for command in [("RENAME", "from", "zset"), ("COPY", "from", "zset"), ("ZUNIONSTORE", "zset", "1", "from"), ("ZRANGESTORE", "zset", "from", "0", "-1"), ("ZINCRBY", "zset", "5", "z")]:
        scene.control.call("ZADD", "from", "1", "a")
        client = scene.waiting("BZPOPMIN", "zset", "0")
        replies += [scene.control.call(*command), client.reply()]
    return replies


def in_a_transaction_nothing_waits_for_a_sorted_set(scene):
    return scene.control.pipeline([("MULTI",), ("BZPOPMIN", "no", "0"), ("BZMPOP", "0", "1", "no", "MAX"), ("ZADD", "z", "1", "a", "2", "b"), ("BZPOPMAX", "no", "z", "0"), ("EXEC",)])


def time_is_limited_for_a_sorted_set(scene):
    commands = [("BZPOPMIN", "no", "0.01"), ("BZMPOP", "0.01", "1", "no", "MIN"), ("PING",)]
    wrong = [("BZPOPMIN", "no", "x"), ("BZPOPMAX", "no", "-1"), ("BZMPOP", "0", "0", "no", "MIN"), ("BZMPOP", "0", "1", "no", "LEFT"), ("SET", "s", "1"), ("BZPOPMIN", "s", "0"), ("BZMPOP", "0", "1", "s", "MIN")]
    return scene.control.pipeline([*commands, *wrong])


def a_client_that_is_gone_takes_nothing_of_a_sorted_set(scene):
    gone = scene.waiting("BZPOPMIN", "zset", "0")
    stays = scene.waiting("BZPOPMIN", "zset", "0")
    gone.close()
    servers.eventually("it is gone", lambda: scene.blocked() == 1)
    return [scene.control.call("ZADD", "zset", "1", "a", "2", "b"), stays.reply(), scene.control.call("ZRANGE", "zset", "0", "-1")]


def every_client_that_waits_for_a_stream_gets_the_entry(scene):
    waiting = [scene.waiting("XREAD", "BLOCK", "0", "STREAMS", "s", "$"), scene.waiting("XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", "other", "s", "0", "0", hello=("3",)), scene.waiting("XREAD", "BLOCK", "0", "STREAMS", "s", "5-5"), scene.waiting("XREAD", "BLOCK", "0", "STREAMS", "s", "s", "3", "0")]
    replies = scene.control.pipeline([("XADD", "s", "1-1", "a", "b"), ("XADD", "s", "5-5", "c", "d"), ("XADD", "s", "6-0", "e", "f")])
    return replies + [client.reply() for client in waiting]


def an_entry_goes_to_one_consumer_of_a_group(scene):
    replies = [scene.control.call("XGROUP", "CREATE", "s", group, "$", "MKSTREAM") for group in ("g", "h")]
    waiting = [scene.waiting("XREADGROUP", "GROUP", "g", name, "BLOCK", "0", "STREAMS", "s", ">", hello=("3",)) for name in ("alice", "bob")]
    waiting += [scene.waiting("XREADGROUP", "GROUP", "h", "carol", "NOACK", "COUNT", "1", "BLOCK", "0", "STREAMS", "other", "s", ">", ">") if scene.control.call("XGROUP", "CREATE", "other", "h", "0", "MKSTREAM") else None]
    replies += scene.control.pipeline([("XADD", "s", "1-0", "a", "b"), ("XADD", "s", "2-0", "c", "d"), ("XPENDING", "s", "g"), ("XPENDING", "s", "h")])
    return replies + [client.reply() for client in waiting] + [scene.control.call("XINFO", "GROUPS", "s")]


def a_consumer_whose_stream_or_group_goes_is_told(scene):
    replies = []
    for command in [("DEL", "s"), ("SET", "s", "x"), ("XGROUP", "DESTROY", "s", "g"), ("FLUSHALL",), ("FLUSHDB",), ("RENAME", "s", "t"), ("PEXPIREAT", "s", "1"), ("UNLINK", "s"), ("GETDEL", "no"), ("MSET", "s", "1", "t", "2")]:
        scene.control.call("DEL", "s")
        scene.control.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        reader = scene.waiting("XREAD", "BLOCK", "0", "STREAMS", "s", "0")
        consumer = scene.waiting("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
        replies += [scene.control.call(*command)]
        if command[0] == "GETDEL":
            scene.control.call("DEL", "s")
        replies += [consumer.reply(), scene.blocked()]
        scene.control.call("DEL", "s")
        scene.control.call("XADD", "s", "1-0", "a", "b")
        replies += [reader.reply()]
    return replies


def a_stream_that_comes_from_elsewhere_serves(scene):
    replies = []
    for command in [("RENAME", "from", "s"), ("COPY", "from", "s")]:
        scene.control.pipeline([("DEL", "s", "from"), ("XADD", "from", "7-0", "a", "b")])
        client = scene.waiting("XREAD", "BLOCK", "0", "STREAMS", "s", "0")
        replies += [scene.control.call(*command), client.reply()]
    return replies


def an_entry_that_is_gone_at_once_is_not_shown(scene):
    client = scene.waiting("XREAD", "BLOCK", "0", "STREAMS", "s", "0")
    return [*scene.control.pipeline([("MULTI",), ("XADD", "s", "1-0", "a", "b"), ("XADD", "s", "2-0", "c", "d"), ("XDEL", "s", "1-0"), ("EXEC",)]), client.reply()]


def in_a_transaction_or_script_nothing_waits_for_a_stream(scene):
    script = "return redis.pcall('XREAD', 'BLOCK', '1', 'STREAMS', 's', '0')"
    return scene.control.pipeline([("MULTI",), ("XREAD", "BLOCK", "0", "STREAMS", "s", "$"), ("XADD", "s", "1-0", "a", "b"), ("XREAD", "BLOCK", "0", "STREAMS", "s", "0"), ("EXEC",), ("EVAL", script, "0"), ("EVAL", "return redis.call('XREAD', 'STREAMS', 's', '0')", "0")])


def time_is_limited_for_a_stream(scene):
    commands = [("XREAD", "BLOCK", "1", "STREAMS", "s", "$"), ("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"), ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "1", "STREAMS", "s", ">"), ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", "0"), ("PING",)]
    wrong = [("XREAD", "BLOCK", "x", "STREAMS", "s", "0"), ("XREAD", "BLOCK", "-1", "STREAMS", "s", "0"), ("XREAD", "BLOCK", "1.5", "STREAMS", "s", "0"), ("XREAD", "BLOCK", "0", "STREAMS", "s", "s", "0")]
    return scene.control.pipeline([*commands, *wrong])


EXPECTED = {
    the_client_that_waited_longest_is_served_first: [2, 0, 1, 0, [b"list", b"a"], [b"list", b"b"], [b"list", b"c"]],
    what_a_client_moves_serves_the_next: [1, b"x", b"x", [b"c", b"x"], 0],
    a_reply_that_is_not_wanted_is_dropped_after_the_wait: ["+PONG", "+OK"],
    a_client_that_is_gone_takes_nothing: [2, [b"list", b"a"], [b"b"]],
}
SCENES = [value for value in list(globals().values()) if callable(value) and getattr(value, "__code__", None) and value.__code__.co_varnames[:1] == ("scene",)]


def play(server, scene):
    playing = Scene(server)
    replies = scene(playing)
    playing.close()
    return replies


def many_wait_without_threads(server):
    threads = lambda: len(os.listdir(f"/proc/{server.process.pid}/task"))
    scene = Scene(server)
    before, waiting = threads(), []
    for number in range(500):
        client = scene.client()
        client.send(("BLPOP", f"list{number}", "shared", "0"))
        waiting.append(client)
    servers.eventually("all wait", lambda: scene.blocked() == 500)
    # Only a fixed number of threads wait for the gate, far fewer than there are clients.
    assert threads() <= before + 100, (before, threads())
    scene.control.call("RPUSH", "shared", *range(500))
    got = [client.reply()[1] for client in waiting]
    assert sorted(map(int, got)) == list(range(500)) and scene.control.call("DBSIZE") == 0
    scene.close()


def a_consumer_whose_stream_is_evicted_is_told(server):
    scene = Scene(server)
    before = scene.control.call("CONFIG", "GET", "maxmemory", "maxmemory-policy")
    scene.control.call("XGROUP", "CREATE", "stream", "g", "0", "MKSTREAM")
    consumer = scene.waiting("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "stream", ">")
    # One byte: everything goes, without a request that writes.
    scene.control.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "1")
    assert consumer.reply().startswith("-UNBLOCKED"), "a consumer whose stream was evicted"
    settings = [before[number : number + 2] for number in range(0, len(before), 2)]
    [scene.control.call("CONFIG", "SET", *setting) for setting in settings]
    scene.close()


def main():
    redis = servers.redis()
    with tempfile.TemporaryDirectory() as folder:
        for options in [(), ("--file", os.path.join(folder, "t.spt"), "--durability", "sync")]:
            mine = servers.splitpoint(*options)
            for scene in SCENES:
                replies = play(mine, scene)
                expected = EXPECTED.get(scene) or (play(redis, scene) if redis else replies)
                assert replies == expected, f"{scene.__name__}:\n  splitpoint {replies}\n  expected   {expected}"
                if redis:
                    theirs = play(redis, scene)
                    assert replies == theirs, f"{scene.__name__}:\n  splitpoint {replies}\n  redis      {theirs}"
            many_wait_without_threads(mine)
            a_consumer_whose_stream_is_evicted_is_told(mine)
            assert mine.stop() == 0
    print(f"blocking: {len(SCENES)} scenes as {'redis plays them' if redis else 'expected; SKIPPED: redis-server is not installed'}")


main()
