"""A dataclass of ours behaves as a standard one does, whoever made its functions and when."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from headrace.declaring import dataclass, is_frozen


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


Declare = Callable[..., Any]


def shelves(declare: Declare) -> tuple[Any, Any]:
    """A class with all that a field can be, and one that adds to it."""

    @declare(slots=True)
    class Shelf:
        name: str
        books: list[str] = dataclasses.field(default_factory=list)
        secret: str = dataclasses.field(default="", repr=False)
        seen: int = dataclasses.field(default=0, compare=False)
        length: int = dataclasses.field(init=False)
        marks: dict[str, int] = dataclasses.field(init=False, default_factory=dict)

        def __post_init__(self) -> None:
            self.length = len(self.books)

    @declare(slots=True, kw_only=True)
    class LabelledShelf(Shelf):
        label: str

    return Shelf, LabelledShelf


def told(shelf: Any, labelled: Any) -> list[object]:
    plain, full = shelf("a"), shelf("b", ["x", "y"], "s", 3)
    added = labelled("c", ["z"], label="l")
    full.books.append("more")
    return [
        [str(each).replace("shelves.<locals>.", "") for each in (plain, full, added)],
        [plain == shelf("a", seen=5), plain == shelf("a", ["x"]), plain == labelled("a", label="l"), added == added],
        [dataclasses.asdict(each) for each in (plain, full, added)],
        shelf("d").books,
        [field.name for field in dataclasses.fields(labelled)],
        labelled.__match_args__,
    ]


def test_factories_hidden_fields_and_those_that_are_inherited_mean_what_they_mean_to_the_standard_one() -> None:
    assert told(*shelves(dataclass)) == told(*shelves(dataclasses.dataclass))


def test_what_a_class_defines_itself_stays_and_a_plain_subclass_may_call_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Name:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and other.text.lower() == self.text.lower()

        def __repr__(self) -> str:
            return self.text

    class Shouted(Name):
        def __init__(self, text: str) -> None:
            super().__init__(text.upper())

    assert (Name("a") == Name("A"), repr(Name("a")), repr(Shouted("b")), repr(Shouted("c"))) == (True, "a", "B", "C")
    assert hash(Name("a")) == hash(Name("a"))


def test_without_eq_each_is_only_itself() -> None:
    @dataclass(slots=True, eq=False)
    class Ticket:
        number: int

    ticket = Ticket(1)

    assert ticket != Ticket(1)
    assert len({ticket, ticket, Ticket(1)}) == 2


def test_the_first_ones_may_be_made_by_several_threads() -> None:
    for _ in range(20):

        @dataclass(frozen=True, slots=True)
        class Fresh:
            number: int

        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(Fresh, range(64)))

        assert {each.number for each in made} == set(range(64)) == {hash(each) and each.number for each in set(made)}


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
