"""What to do with records that fail: try again with growing waits, park what stays bad, send it back when the cause is gone."""

import time
import uuid
from collections import Counter

from headrace import Backoff, Consumer, DeadLetters, Producer, Record, Reject
from headrace.client.deadletter.redrive import parked, redrive

TOPIC = f"invoices-{uuid.uuid4().hex[:6]}"
attempts: Counter[str] = Counter()
handled: list[str] = []
repaired = False


def handle(record: Record[bytes, str]) -> None:
    attempts[record.value] += 1
    if record.value == "flaky" and attempts["flaky"] < 3:
        raise ConnectionError("the tax office does not answer")
    if record.value == "unreadable" and not repaired:
        raise Reject("this needs a person")  # no point in trying again
    handled.append(record.value)


def work_until(count: int, consumer: Consumer[bytes, str]) -> None:
    letters = DeadLetters(attempts=5, backoff=Backoff(first=0.1, longest=5))
    with consumer.on_message(handle, workers=4, dead_letters=letters):
        while sum(consumer.positions().values()) < count:
            time.sleep(0.05)


with Producer() as producer:
    for value in ("fine", "flaky", "unreadable", "also fine"):
        producer.send(TOPIC, value, key=value)

with Consumer[bytes, str](TOPIC, group=TOPIC, values=str) as consumer:
    work_until(4, consumer)
    print("handled:", sorted(handled), "flaky took", attempts["flaky"], "attempts")
    for letter in parked(consumer.bootstrap, f"{TOPIC}.dead-letter"):
        print(f"parked: {letter.record.value.decode()!r} because {letter.reason}")

    repaired = True
    print("sent back:", redrive(consumer.bootstrap, f"{TOPIC}.dead-letter").sent)
    work_until(5, consumer)
    print("and now handled:", handled[-1])
