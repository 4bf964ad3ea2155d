"""The log of gateways: of two changes that race the first counts, also after compaction."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.fleet.state import Key, State, read_key


def entry(kind: str, name: str, version: int, nonce: str, value: bytes | None) -> tuple[bytes, bytes | None]:
    return Key(kind, name, version, nonce).encoded(), value


def applied(entries: list[tuple[bytes, bytes | None]]) -> State:
    state = State()
    for key, value in entries:
        state.apply(key, value)
    return state


def test_the_first_of_two_changes_after_one_version_counts() -> None:
    state = applied(
        [
            entry("thing", "s", 1, "a", b'{"n":1}'),
            entry("thing", "s", 2, "b", b'{"n":2}'),
            entry("thing", "s", 2, "c", b'{"n":3}'),
        ]
    )

    assert state.things["s"].document == {"n": 2}
    assert state.stale == {b"thing/s/1/a", b"thing/s/2/c"}


def test_a_gateway_that_leaves_is_gone() -> None:
    state = applied([entry("gateway", "g", 0, "-", b'{"url":"x"}'), entry("gateway", "h", 0, "-", b'{"url":"y"}')])
    state.apply(*entry("gateway", "g", 0, "-", None))

    assert list(state.gateways) == ["h"]


def test_what_is_deleted_is_not_listed_and_an_old_change_does_not_bring_it_back() -> None:
    state = applied([entry("thing", "s", 1, "a", b'{"n":1}'), entry("thing", "s", 2, "b", b"{}")])

    assert list(state.documents()) == []
    assert not state.apply(*entry("thing", "s", 2, "late", b'{"n":9}'))


def test_a_claim_names_the_owner() -> None:
    state = applied([entry("claim", "s", 1, "a", b'{"owner":"one"}'), entry("claim", "s", 1, "b", b'{"owner":"two"}')])

    assert (state.owner_of("s"), state.owner_of("other")) == ("one", None)


def test_what_others_write_into_the_topic_is_passed_over() -> None:
    state = applied([(b"nonsense", b"{}"), (b"thing/s/x/a", b"{}"), (b"\xff", b"{}"), entry("thing", "s", 1, "a", b"no json")])

    state.apply(*entry("thing", "s", 1, "a", b"[1]"))
    state.apply(*entry("claim", "s", 1, "a", b'"one"'))
    state.apply(*entry("gateway", "g", 0, "-", b"7"))
    state.apply(*entry("gateway", "g", 0, "-", b"{}"))

    assert state == State()
    assert read_key(None) is None


ENTRIES = st.lists(
    st.tuples(st.sampled_from(["thing", "claim"]), st.sampled_from("st"), st.integers(1, 4), st.integers(0, 9)), max_size=20
)


@given(ENTRIES, st.randoms(use_true_random=False))
def test_compaction_changes_nothing(changes: list[tuple[str, str, int, int]], random: object) -> None:
    """Compaction keeps the last entry of each key, in order; gateways delete keys that are stale."""
    entries = [
        entry(kind, name, version, f"{index}", b'{"n":%d,"owner":"%d"}' % (number, number))
        for index, (kind, name, version, number) in enumerate(changes)
    ]
    whole = applied(entries)
    compacted = applied([each for each in entries if each[0] not in whole.stale])

    assert {name: kept.document for name, kept in compacted.things.items()} == {
        name: kept.document for name, kept in whole.things.items()
    }
    assert compacted.claims == whole.claims
