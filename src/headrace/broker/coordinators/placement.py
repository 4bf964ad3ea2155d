"""Which partition of an internal topic looks after a key: Kafka's choice, so that its tools and brokers agree with us."""

from headrace.controller.image import ClusterImage
from headrace.model.errors import ErrorCode, RequestError


def java_hash(text: str) -> int:
    """Java's String.hashCode: 31-adic over UTF-16 units, wrapped to a signed 32-bit number."""
    result = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - 0x1_0000_0000 if result & 0x8000_0000 else result


def partition_for(key: str, partition_count: int) -> int:
    number = java_hash(key)
    # The smallest number has no positive counterpart; Kafka takes 0 for it.
    return (0 if number == -0x8000_0000 else abs(number)) % partition_count


def coordinating_partition(image: ClusterImage, internal_topic: str, key: str) -> int:
    topic = image.topics.get(internal_topic)
    if topic is None:
        # Nobody has looked for a coordinator yet, so nobody can be one.
        raise RequestError(ErrorCode.NOT_COORDINATOR)
    return partition_for(key, topic.partition_count)
