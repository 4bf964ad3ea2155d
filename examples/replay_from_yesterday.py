"""Read again from a point in time: what happened since yesterday, whatever any group has read."""

import uuid
from datetime import UTC, datetime, timedelta

from headrace import Consumer, Producer

TOPIC = f"measurements-{uuid.uuid4().hex[:6]}"
now = datetime.now(UTC)
yesterday = now - timedelta(days=1)

with Producer(values="json") as producer:
    for hours_ago in range(48, 0, -6):
        producer.send(TOPIC, {"hours_ago": hours_ago}, timestamp=now - timedelta(hours=hours_ago))

with Consumer(TOPIC, start=yesterday, values="json") as consumer:
    replayed = [record.value["hours_ago"] for record in consumer.to_end()]
print("since yesterday:", replayed)

# A group that has already read on goes back in the same way.
with Consumer(TOPIC, group=f"{TOPIC}-report", values="json") as consumer:
    print("all of it:", len(list(consumer.to_end())), "records")
    consumer.seek_to_time(now - timedelta(hours=13))
    print("again from 13 hours ago:", [record.value["hours_ago"] for record in consumer.to_end()])
