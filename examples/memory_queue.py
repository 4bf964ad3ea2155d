"""A queue in memory with several consumer threads: no file, no server to start.

The consumers are one group, so each message goes to one of them; the messages of a key stay in order.
"""

from threading import Lock, Thread

from headrace import Admin, Consumer, Producer
from headrace.testing import Broker

MESSAGES = 12
printing = Lock()
received: list[str] = []


def consume(consumer_id: str, bootstrap: str) -> None:
    with Consumer("queue", bootstrap=bootstrap, group="workers", values=str, start="earliest") as consumer:
        for record in consumer.records(timeout=3):
            with printing:
                print(f"{consumer_id} received {record.value}", flush=True)
                received.append(record.value)


with Broker(memory=True) as broker:
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

print(f"{len(set(received))} of {MESSAGES} messages received")
