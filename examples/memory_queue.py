"""A queue in memory with several consumer threads: no file, no server to start.

The consumers are one group, so each message goes to one of them; the messages of a key stay in order.
"""

from threading import Lock, Thread

from headrace import Admin, Consumer, Producer
from headrace.testing import Broker

MESSAGES = 12
printing = Lock()
received: set[str] = set()


def consume(consumer_id: str, bootstrap: str) -> None:
    with Consumer("queue", bootstrap=bootstrap, group="workers", values=str) as consumer:
        while len(received) < MESSAGES:
            if (record := consumer.poll(timeout=0.1)) is not None:
                with printing:
                    print(f"{consumer_id} received {record.value}", flush=True)
                    received.add(record.value)


# The group waits a moment for its members, so that all of them have a share from the beginning.
with Broker(memory=True, settings={"group.initial.rebalance.delay.ms": 500}) as broker:
    with Admin(broker.bootstrap) as admin:
        admin.create_topic("queue", partitions=6)
    consumers = [Thread(target=consume, args=(f"consumer-{number}", broker.bootstrap)) for number in range(3)]
    for thread in consumers:
        thread.start()
    with Producer(broker.bootstrap, linger=0) as producer:
        for number in range(MESSAGES):
            producer.send("queue", f"message-{number}", partition=number % 6)
    for thread in consumers:
        thread.join()

print(f"{len(received)} of {MESSAGES} messages received")
