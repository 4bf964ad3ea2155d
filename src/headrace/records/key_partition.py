"""Which partition a key belongs to, by the choice of Kafka's Java client, which every client can be told to make."""

MASK = 0xFFFFFFFF
MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """MurmurHash2 as Kafka's Java client computes it, as an unsigned 32-bit number."""
    length = len(data)
    digest = (SEED ^ length) & MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        block = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK
        block = (block ^ block >> 24) * MULTIPLIER & MASK
        digest = digest * MULTIPLIER & MASK ^ block
    if length > whole:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & MASK
    digest = (digest ^ digest >> 13) * MULTIPLIER & MASK
    return digest ^ digest >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition that every Kafka client with the Java client's default gives this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
