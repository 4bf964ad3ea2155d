"""A message behaves as a dataclass does, whoever made its functions."""

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from headrace.wire.declaring import dataclass, is_frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where."""

    kind: ClassVar[str] = "place"
    host: str
    port: int = 9092
    racks: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Answer:
    """May change."""

    code: int = 0
    place: Place = Place(host="nowhere")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StandardPlace:
    kind: ClassVar[str] = "place"
    host: str
    port: int = 9092
    racks: tuple[str, ...] = ()


def test_fields_and_defaults_are_what_was_said() -> None:
    place = Place(host="a", racks=("r",))

    assert (place.host, place.port, place.racks, place.kind) == ("a", 9092, ("r",), "place")
    assert [field.name for field in dataclasses.fields(Place)] == ["host", "port", "racks"]
    assert not hasattr(place, "__dict__")
    assert Place.__doc__ == "Where."


def test_it_reads_as_the_standard_one_does() -> None:
    standard = StandardPlace(host="a", port=1)

    assert repr(Place(host="a", port=1)) == repr(standard).replace("StandardPlace", "Place")


@pytest.mark.parametrize("arguments", [{}, {"host": "a", "none": 1}])
def test_what_is_missing_or_unknown_is_refused_the_first_time_and_later(arguments: dict[str, Any]) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Fresh:
        host: str

    for _ in range(2):
        with pytest.raises(TypeError, match="argument"):
            Fresh(**arguments)
    assert Fresh(host="b").host == "b"


def test_equal_are_those_of_one_class_with_equal_fields() -> None:
    place = Place(host="a")

    assert place == place
    assert place == Place(host="a")
    assert place != Place(host="b")
    assert place != Answer()
    assert hash(place) == hash(Place(host="a"))
    assert len({place, Place(host="a"), Place(host="b")}) == 2


def test_a_frozen_one_stays_as_it_is_and_another_does_not() -> None:
    place, answer = Place(host="a"), Answer()

    with pytest.raises(dataclasses.FrozenInstanceError):
        place.port = 1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del place.port
    answer.code = 3
    assert answer == Answer(code=3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(answer)
    assert (is_frozen(Place), is_frozen(Answer)) == (True, False)


def test_it_can_be_replaced_copied_and_pickled() -> None:
    place = Place(host="a")

    assert dataclasses.replace(place, port=1) == Place(host="a", port=1)
    assert copy.copy(place) == copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place
    assert copy.copy(Answer(code=2)) == Answer(code=2)


def test_its_function_is_compiled_when_the_first_is_made() -> None:
    @dataclass(slots=True, kw_only=True)
    class Never:
        code: int

    @dataclass(slots=True, kw_only=True)
    class Once:
        code: int

    Once(code=1)

    Answer(code=1)
    shared = Never.__init__
    assert Once.__init__ is not shared
    assert Answer.__init__.__qualname__ == "Answer.__init__"
