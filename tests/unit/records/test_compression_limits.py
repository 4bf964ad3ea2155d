"""Codecs: Java's framings both ways, and no bomb unpacks beyond its limit."""

import gzip
import random
import tracemalloc

import cramjam
import pytest
from aiokafka.codec import snappy_decode, snappy_encode
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import ErrorCode
from headrace.records.compression import CODEC_NAMES, CompressionError, codec_name, compress, decompress

PACKED = [name for name in CODEC_NAMES if name != "none"]


@given(data=st.binary(max_size=5000), codec=st.sampled_from(CODEC_NAMES))
def test_what_is_packed_is_unpacked(data: bytes, codec: str) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_a_large_body_survives(codec: str) -> None:
    data = bytes(range(256)) * 4096

    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_and_costs_no_memory(codec: str) -> None:
    bomb = compress(codec, bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError) as refused:
            decompress(codec, bomb, limit=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert peak < 4_000_000


@pytest.mark.parametrize("codec", PACKED)
def test_what_unpacks_to_much_takes_no_more_memory_than_it_needs(codec: str) -> None:
    packed = compress(codec, bytes(1_000_000))
    tracemalloc.start()
    try:
        assert len(decompress(codec, packed)) == 1_000_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10_000_000


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_exactly_the_limit_is_allowed(codec: str) -> None:
    assert len(decompress(codec, compress(codec, bytes(70_000)), limit=70_000)) == 70_000


@pytest.mark.parametrize("codec", PACKED)
def test_packed_data_cut_short_is_refused(codec: str) -> None:
    packed = compress(codec, b"some records " * 100)
    for size in (1, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CompressionError):
            decompress(codec, packed[:size])


def test_snappy_is_framed_as_the_java_client_frames_it() -> None:
    data = b"abc" * 50_000

    assert snappy_decode(compress("snappy", data)) == data
    assert decompress("snappy", snappy_encode(data)) == data


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    # The Java client refuses frames without this flag.
    packed = compress("lz4", b"abc" * 100_000)
    noise = random.Random(1).randbytes(200_000)

    assert packed[4] & 0x20
    assert bytes(cramjam.lz4.decompress(packed)) == b"abc" * 100_000
    assert decompress("lz4", compress("lz4", noise)) == noise
    assert decompress("lz4", bytes(cramjam.lz4.compress(b"linked" * 50_000))) == b"linked" * 50_000


def test_a_raw_snappy_block_is_read_too() -> None:
    assert decompress("snappy", bytes(cramjam.snappy.compress_raw(b"raw" * 100))) == b"raw" * 100


def test_gzip_of_several_members_is_one_body() -> None:
    assert decompress("gzip", gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_a_codec_that_does_not_exist_is_named() -> None:
    with pytest.raises(CompressionError) as refused:
        codec_name(6)
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
