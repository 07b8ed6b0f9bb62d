#!/usr/bin/env python3
"""redis-py, as applications use it: plain, pipelines, transactions, RESP2 and RESP3, messages."""

import sys
import threading

import redis

import servers


def check(protocol):
    server = servers.splitpoint()
    r = redis.Redis(port=server.port, protocol=protocol, socket_timeout=servers.PATIENCE)
    assert r.ping()
    assert r.set("a", 1) and r.get("a") == b"1"
    assert r.set("a", 2, nx=True) is None and r.set("a", 2, get=True) == b"1"
    assert r.append("log", "one,") == 4 and r.append("log", "two") == 7 and r.getrange("log", 4, -1) == b"two"
    assert r.incrby("n", 5) == 5 and r.decr("n") == 4 and r.incrbyfloat("f", 0.1) == 0.1
    assert r.mset({"x": 1, "y": 2}) and r.mget("x", "y", "z") == [b"1", b"2", None]
    assert r.expire("x", 100) and 90 < r.ttl("x") <= 100 and r.persist("x") and r.ttl("x") == -1
    assert r.setex("t", 50, "v") and r.getex("t", persist=True) == b"v" and r.getdel("t") == b"v"
    assert sorted(r.scan_iter("*", count=3)) == [b"a", b"f", b"log", b"n", b"x", b"y"]
    assert r.dbsize() == 6 and r.type("a") == b"string" and r.exists("a", "x", "nope") == 2
    with r.pipeline(transaction=False) as pipe:
        for number in range(5000):
            pipe.set(f"p{number}", number)
        for number in range(5000):
            pipe.get(f"p{number}")
        assert pipe.execute()[5000:] == [str(n).encode() for n in range(5000)]
    # Optimistic transactions of several threads lose no update.
    def add():
        mine = redis.Redis(port=server.port, protocol=protocol)
        for _ in range(50):
            mine.transaction(lambda pipe: (lambda n: (pipe.multi(), pipe.set("sum", n + 1)))(int(pipe.get("sum") or 0)), "sum")

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert r.get("sum") == b"200", r.get("sum")
    assert r.client_setname("tester") and r.client_getname() in ("tester", b"tester") and r.client_id() > 0
    assert any(client["name"] == "tester" for client in r.client_list())
    assert r.info()["redis_version"] and r.config_get("maxmemory")["maxmemory"] == "0" and r.command_count() > 70
    assert r.memory_usage("a") > 0 and r.object("encoding", "a") == b"int" and r.slowlog_len() >= 0 and r.time()[0] > 0
    dump = r.dump("log")
    assert r.restore("log2", 0, dump) and r.get("log2") == b"one,two" and r.rename("log2", "log3")
    messages = r.pubsub()
    messages.subscribe("news")
    assert messages.get_message(timeout=servers.PATIENCE)["type"] == "subscribe"
    assert r.publish("news", "hello") == 1 and messages.get_message(timeout=servers.PATIENCE)["data"] == b"hello"
    assert r.hset("hash", mapping={"a": 1, "b": 2}) == 2 and r.hgetall("hash") == {b"a": b"1", b"b": b"2"}
    assert r.sadd("set", 1, 2) == 2 and r.smembers("set") == {b"1", b"2"} and r.sinter("set", "no set") == set()
    assert r.rpush("list", 1, 2, 3) == 3 and r.lrange("list", 0, -1) == [b"1", b"2", b"3"]
    assert list(r.blpop(["no list", "list"])) == [b"list", b"1"] and r.blpop("no list", timeout=0.01) is None
    assert dict(r.hscan_iter("hash")) == {b"a": b"1", b"b": b"2"} and sorted(r.sscan_iter("set")) == [b"1", b"2"]
    lock = r.lock("lock", timeout=100)
    assert lock.acquire() and lock.owned() and not r.lock("lock", timeout=100).acquire(blocking=False)
    assert lock.extend(100) and 150 < r.ttl("lock") <= 200 and lock.reacquire() and r.ttl("lock") <= 100
    lock.release()
    try:
        r.lock("lock").release()
        raise SystemExit("a lock was released by another client")
    except redis.exceptions.LockError:
        pass
    add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    with r.pipeline() as pipe:
        add(keys=["scripted"], args=[2], client=pipe)
        add(keys=["scripted"], args=[3], client=pipe)
        assert pipe.execute() == [2, 5] and r.script_exists(add.sha) == [True]
    assert r.zadd("sorted", {"a": 1.5, "b": -1}) == 2 and r.zincrby("sorted", 2, "b") == 1.0
    assert r.zrange("sorted", 0, -1, withscores=True) and r.zscore("sorted", "a") == 1.5 and r.delete("sorted") == 1
    r.xadd("stream", {"a": 1}, id="1-0")
    assert r.xrange("stream") == [(b"1-0", {b"a": b"1"})] and r.delete("stream") == 1
    assert r.geoadd("places", (13.36, 38.12, "a")) == 1 and r.geodist("places", "a", "a") == 0.0 and r.delete("places")
    assert r.rpush("numbers", 3, 1, 2) == 3 and r.sort("numbers", desc=True) == [b"3", b"2", b"1"] and r.delete("numbers")
    assert r.function_list() == [] and r.module_list() == [] and r.memory_stats()["keys.count"] >= 0
    assert r.acl_setuser("reader", enabled=True, nopass=True, keys=["s*"], categories=["+@read"])
    assert r.acl_getuser("reader")["keys"] == ["~s*"] and r.acl_dryrun("reader", "get", "s") and r.acl_deluser("reader")
    try:
        r.set("s", "abc")
        r.incr("s")
        raise SystemExit("INCR of text was accepted")
    except redis.ResponseError as error:
        assert str(error) == "value is not an integer or out of range"
    assert r.flushall() and r.dbsize() == 0
    server.stop()


for version in (2, 3):
    check(version)
print(f"python client: redis-py {redis.__version__}, RESP2 and RESP3")
sys.exit(0)
