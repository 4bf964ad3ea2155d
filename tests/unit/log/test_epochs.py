"""Which leader epoch began where."""

from headrace.log.epochs import EpochCache


def starts(cache: EpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in cache]


def test_a_replica_that_led_without_writing_goes_on_in_the_epoch_before_which_began_where_it_began() -> None:
    cache = EpochCache(lambda: 48)
    for epoch, start in ((0, 0), (1, 28), (2, 48)):
        cache.assign(epoch, start)
    # Records of epoch 1 that it had not seen when it was elected; nothing was written in epoch 2.
    cache.assign(1, 48)

    assert starts(cache) == [(0, 0), (1, 28)]


def test_an_epoch_that_was_not_known_takes_the_place_of_later_ones() -> None:
    cache = EpochCache(lambda: 48)
    for epoch, start in ((0, 0), (3, 48)):
        cache.assign(epoch, start)
    cache.assign(1, 48)

    assert starts(cache) == [(0, 0), (1, 48)]
