"""One topic, several groups: each group gets every record, whatever the others do."""

import uuid
from threading import Thread

from headrace import Consumer, Producer

TOPIC = f"sign-ups-{uuid.uuid4().hex[:6]}"
NAMES = ["ann", "bob", "cid"]


def service(group: str, action: str) -> None:
    with Consumer(TOPIC, group=group, values=str) as consumer:
        for seen, record in enumerate(consumer, 1):
            print(f"{group}: {action} {record.value}")
            if seen == len(NAMES):
                return


with Producer() as producer:
    for name in NAMES:
        producer.send(TOPIC, name)

services = [Thread(target=service, args=each) for each in (("mail", "welcomes"), ("search", "indexes"), ("audit", "notes"))]
for thread in services:
    thread.start()
for thread in services:
    thread.join()
