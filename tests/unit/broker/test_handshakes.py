"""Places for TLS handshakes: who has how many of them."""

from headrace.broker.tls.listening import Handshakes


def taken(handshakes: Handshakes, address: str, wanted: int) -> int:
    """How many places an address gets of those it wants."""
    return sum(handshakes.begin(address) is not None for _ in range(wanted))


def test_a_few_addresses_together_do_not_take_all_places() -> None:
    handshakes = Handshakes(64)

    assert [taken(handshakes, f"10.0.0.{number}", 1000) for number in range(4)] == [32, 16, 8, 4]
    assert taken(handshakes, "10.0.1.1", 1) == 1


def test_many_addresses_with_one_handshake_each_fill_all_places() -> None:
    handshakes = Handshakes(64)

    assert sum(taken(handshakes, f"10.0.0.{number}", 1) for number in range(64)) == 64
    assert handshakes.are_too_many


def test_places_that_are_given_back_can_be_had_again() -> None:
    handshakes = Handshakes(8)
    assert taken(handshakes, "10.0.0.1", 8) == 4
    for _ in range(4):
        handshakes.end("10.0.0.1")

    assert taken(handshakes, "10.0.0.1", 8) == 4
    assert handshakes.under_way == 4
