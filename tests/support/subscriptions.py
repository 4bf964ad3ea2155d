"""What a consumer sends inside JoinGroup, as clients write it; the broker only ever reads it."""

import struct

from headrace.coordination.group.conversion.subscription_bytes import Subscription


def write_subscription(subscription: Subscription) -> bytes:
    version = subscription.version
    parts = [struct.pack(">hi", version, len(subscription.topics))]
    parts += [_text(topic) for topic in subscription.topics]
    data = subscription.user_data
    parts.append(struct.pack(">i", -1) if data is None else struct.pack(f">i{len(data)}s", len(data), data))
    if version >= 1:
        parts.append(struct.pack(">i", len(subscription.owned)))
        for topic, indexes in subscription.owned.items():
            parts.append(_text(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    if version >= 2:
        parts.append(struct.pack(">i", subscription.generation))
    if version >= 3:
        parts.append(struct.pack(">h", -1) if subscription.rack_id is None else _text(subscription.rack_id))
    return b"".join(parts)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(f">h{len(data)}s", len(data), data)
