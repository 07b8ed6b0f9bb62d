#!/usr/bin/env python3
"""Job queues as their users run them: Celery, Dramatiq, Huey, channels_redis, RQ and BullMQ over a file of this server.

Each does what its documentation shows first, and what needs sorted sets or streams: delays, retries, priorities, full queues,
results. What is not installed is skipped. Celery's worker is another process, which imports this file, as RQ's does.
BULLMQ is the folder in which npm has installed BullMQ.
"""

import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile

URL = os.environ.get("JOB_QUEUES_URL", "")
SECONDS = 600


def celery_app():
    import celery

    app = celery.Celery("job_queues", broker=URL + "/0", backend=URL + "/1")
    app.conf.broker_transport_options = {"priority_steps": [0, 3, 6, 9], "queue_order_strategy": "priority"}

    @app.task(name="add")
    def add(x, y):
        return x + y

    @app.task(name="total")
    def total(numbers):
        return sum(numbers)

    @app.task(name="fails_once", bind=True, max_retries=2)
    def fails_once(self):
        if self.request.retries < 1:
            raise self.retry(countdown=1)
        return "done"

    return app


if URL and os.environ.get("JOB_QUEUES_WORKER"):
    app = celery_app()


def celery():
    from celery import chord, group

    app = celery_app()
    add, total, fails_once = (app.tasks[name] for name in ("add", "total", "fails_once"))
    command = [sys.executable, "-m", "celery", "-A", "job_queues", "worker", "-c", "2", "-l", "ERROR"]
    worker = subprocess.Popen(command, cwd=os.path.dirname(os.path.abspath(__file__)), env={**os.environ, "JOB_QUEUES_URL": URL, "JOB_QUEUES_WORKER": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert add.delay(2, 3).get(timeout=SECONDS) == 5
        assert group(add.s(n, n) for n in range(20))().get(timeout=SECONDS) == [2 * n for n in range(20)]
        assert chord([add.s(n, 1) for n in range(10)])(total.s()).get(timeout=SECONDS) == 55
        assert add.apply_async((4, 5), countdown=1, priority=3).get(timeout=SECONDS) == 9
        assert fails_once.delay().get(timeout=SECONDS) == "done"
    finally:
        worker.terminate()
        worker.wait()


def dramatiq():
    import logging

    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    logging.getLogger("dramatiq").setLevel(logging.CRITICAL)
    broker = RedisBroker(url=URL + "/2")
    broker.add_middleware(Results(backend=RedisBackend(url=URL + "/2")))
    dramatiq.set_broker(broker)
    calls = []

    @dramatiq.actor(store_results=True)
    def add(x, y):
        return x + y

    @dramatiq.actor(store_results=True, max_retries=3, min_backoff=100, max_backoff=200)
    def fails_once():
        calls.append(1)
        if len(calls) < 2:
            raise ValueError("once")
        return "done"

    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    wait = {"block": True, "timeout": 1000 * SECONDS}
    assert add.send(1, 2).get_result(**wait) == 3
    assert list(dramatiq.group(add.message(n, n) for n in range(20)).run().get_results(**wait)) == [2 * n for n in range(20)]
    assert (add.message(1, 2) | add.message(3)).run().get_result(**wait) == 6
    assert add.send_with_options(args=(5, 5), delay=500).get_result(**wait) == 10
    assert fails_once.send().get_result(**wait) == "done"
    broker.join("default", timeout=1000 * SECONDS)
    worker.stop()


def huey():
    from huey import PriorityRedisHuey, RedisHuey

    for kind in (RedisHuey, PriorityRedisHuey):
        queue = kind("queue", url=URL + "/4")

        @queue.task()
        def add(x, y):
            return x + y

        consumer = queue.create_consumer(workers=2, periodic=False, scheduler_interval=1)
        consumer.start()
        assert [result.get(blocking=True, timeout=SECONDS) for result in [add(n, n) for n in range(20)]] == [2 * n for n in range(20)]
        assert add.schedule((1, 2), delay=1).get(blocking=True, timeout=SECONDS) == 3
        consumer.stop(graceful=True)


def channels_redis():
    from channels.exceptions import ChannelFull
    from channels_redis.core import RedisChannelLayer
    from channels_redis.pubsub import RedisPubSubChannelLayer

    async def talk():
        layer = RedisChannelLayer(hosts=[URL + "/5"], capacity=10)
        later = asyncio.ensure_future(layer.receive("later"))
        await layer.send("now", {"type": "a"})
        assert (await layer.receive("now"))["type"] == "a"
        await layer.send("later", {"type": "b"})
        assert (await later)["type"] == "b"
        members = [await layer.new_channel() for _ in range(5)]
        for member in members:
            await layer.group_add("group", member)
        await layer.group_send("group", {"type": "c"})
        assert [(await layer.receive(member))["type"] for member in members] == ["c"] * 5
        try:
            for _ in range(11):
                await layer.send("full", {"type": "d"})
            raise AssertionError("a channel takes more than its capacity")
        except ChannelFull:
            pass
        await layer.flush()
        await layer.close_pools()
        layer = RedisPubSubChannelLayer(hosts=[URL + "/5"])
        member = await layer.new_channel()
        await layer.group_add("group", member)
        await layer.group_send("group", {"type": "e"})
        assert (await layer.receive(member))["type"] == "e"

    asyncio.run(talk())


FAILED = []


def double(n):
    return 2 * n


def fail_once():
    FAILED.append(1)
    if len(FAILED) < 2:
        raise ValueError("once")
    return "done"


def rq():
    import logging

    import redis
    import rq

    logging.getLogger("rq").setLevel(logging.CRITICAL)
    connection = redis.Redis.from_url(URL + "/6")
    urgent, queue = rq.Queue("urgent", connection=connection), rq.Queue(connection=connection)
    jobs = [queue.enqueue("job_queues.double", n) for n in range(20)]
    after = queue.enqueue("job_queues.double", 21, depends_on=jobs)
    retried = urgent.enqueue("job_queues.fail_once", retry=rq.Retry(max=2))
    failed = queue.enqueue("job_queues.double")
    rq.SimpleWorker([urgent, queue], connection=connection).work(burst=True, logging_level="CRITICAL")
    assert [job.latest_result().return_value for job in jobs] == [2 * n for n in range(20)]
    assert after.latest_result().return_value == 42 and retried.latest_result().return_value == "done"
    assert failed.latest_result().type == rq.results.Result.Type.FAILED and failed.id in queue.failed_job_registry
    assert queue.enqueue("job_queues.double", 1).get_position() == 0


BULLMQ_EXAMPLE = """
const { FlowProducer, Queue, QueueEvents, Worker } = require('bullmq');
const options = { connection: { host: '127.0.0.1', port: +process.argv[1], db: 7 } };
const equal = require('assert').deepStrictEqual;
async function main() {
  const queue = new Queue('paint', options), events = new QueueEvents('paint', options);
  await events.waitUntilReady();
  const seen = [];
  events.on('completed', ({ jobId }) => seen.push(jobId));
  let failures = 0;
  const worker = new Worker('paint', async job => {
    if (job.name === 'fails once' && failures++ === 0) throw new Error('once');
    if (job.name === 'always fails') throw new Error('always');
    await job.updateProgress(50);
    return 2 * job.data.n;
  }, { ...options, concurrency: 5 });
  const done = async (name, n, how) => (await queue.add(name, { n }, how)).waitUntilFinished(events);
  equal(await done('cars', 4), 8);
  equal(await Promise.all([...Array(50).keys()].map(n => done('many', n, { priority: 1 + n % 3 }))), [...Array(50).keys()].map(n => 2 * n));
  equal(await done('later', 5, { delay: 300 }), 10);
  equal(await done('fails once', 6, { attempts: 3, backoff: 100 }), 12);
  equal(await done('always fails', 7).catch(error => error.message), 'always');
  equal(await queue.getJobCounts('completed', 'failed', 'waiting', 'delayed'), { completed: 53, failed: 1, waiting: 0, delayed: 0 });
  const flow = new FlowProducer(options);
  const tree = await flow.add({ name: 'parent', queueName: 'paint', data: { n: 8 }, children: [{ name: 'child', queueName: 'paint', data: { n: 9 } }] });
  equal(await tree.job.waitUntilFinished(events), 16);
  await queue.trimEvents(10);
  equal(seen.length >= 54, true);
  await worker.close();
  await queue.obliterate();
  await Promise.all([queue, events, flow].map(each => each.close()));
}
main().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
"""


def bullmq(folder, port):
    subprocess.run(["node", "-e", BULLMQ_EXAMPLE, str(port)], cwd=folder, env={**os.environ, "NODE_PATH": os.path.join(folder, "node_modules")}, check=True)


def main():
    global URL
    import servers

    with tempfile.TemporaryDirectory() as folder:
        server = servers.splitpoint("--file", os.path.join(folder, "t.spt"))
        URL = f"redis://127.0.0.1:{server.port}"
        for queue in (celery, dramatiq, huey, channels_redis, rq):
            if importlib.util.find_spec(queue.__name__) is None:
                print(f"SKIPPED: {queue.__name__}, which is not installed (pip install {queue.__name__})")
                continue
            queue()
            print(f"job queues: {queue.__name__} runs")
        if os.environ.get("BULLMQ"):
            bullmq(os.environ["BULLMQ"], server.port)
            print("job queues: bullmq runs")
        else:
            print("SKIPPED: BullMQ, which could not be installed (npm install bullmq ioredis)")
        assert server.stop() == 0


if __name__ == "__main__":
    main()
