"""Subjects, versions, ids, modes and deleting: decisions on a catalog, without a log."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.registry.log.record_format import read, record_of
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.decision import Decision
from headrace.registry.rules.deleting import delete_context, delete_subject, delete_version
from headrace.registry.rules.entries import Content, Reference, SchemaVersion
from headrace.registry.rules.errors import RegistryError
from headrace.registry.rules.reading import referenced
from headrace.registry.rules.registering import Registration, look_up, register
from headrace.registry.rules.settings import (
    config_in_scope,
    delete_config,
    delete_mode,
    mode_in_scope,
    own_config,
    own_mode,
    set_config,
    set_mode,
)
from headrace.registry.rules.subjects import beside, normal, valid

LONG = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
TOTAL = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"total","type":"double","default":0}]}'
TEXT = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'


class Registry:
    """A catalog that is changed through its log's records, as a real one is."""

    def __init__(self) -> None:
        self.catalog = Catalog()

    def do(self, decide: Callable[..., Decision[Any]], *arguments: Any, **named: Any) -> Any:
        decision = decide(self.catalog, *arguments, **named)
        for entry in decision.entries:
            key, value = record_of(entry)
            told = read(key, value)
            assert told is not None
            self.catalog.apply([told])
        return decision.answer

    def register(self, subject: str, text: str, **more: Any) -> SchemaVersion:
        references = more.pop("references", ())
        kept = more.pop("kept", {})
        content = Content(text=text, references=references, kept=kept)
        return self.do(register, Registration(subject=subject, content=content, **more))


@pytest.fixture
def registry() -> Registry:
    return Registry()


def code(call: Callable[[], object]) -> int:
    with pytest.raises(RegistryError) as refused:
        call()
    return refused.value.code


def test_the_same_schema_has_one_id_in_all_subjects_of_a_context(registry: Registry) -> None:
    first = registry.register("a", LONG)
    again = registry.register("a", LONG.replace(" ", "\n"))
    other = registry.register("b", LONG)
    elsewhere = registry.register(":.other:a", TEXT)

    assert (first.id, first.version) == (again.id, again.version) == (1, 1)
    assert (other.id, other.version) == (1, 1)
    assert elsewhere.id == 1  # ids begin anew in each context
    assert registry.catalog.every_context() == [".", ".other"]


def test_an_incompatible_schema_is_refused_unless_the_level_allows_it(registry: Registry) -> None:
    registry.register("a", LONG)

    assert code(lambda: registry.register("a", TEXT)) == 40901
    assert registry.register("a", TEXT, force=True).version == 2
    registry.do(set_config, "a", {"compatibility": "none"})
    assert registry.register("a", '"string"').version == 3


@pytest.mark.parametrize(
    ("level", "old", "new", "accepted"),
    [
        ("BACKWARD", LONG, TOTAL, True),
        ("BACKWARD", TOTAL.replace(',"default":0', ""), LONG, True),
        ("FORWARD", LONG, TOTAL.replace(',"default":0', ""), True),
        ("FORWARD", TOTAL.replace(',"default":0', ""), LONG, False),
        ("FULL", LONG, TOTAL, True),
        ("FULL", LONG, TOTAL.replace(',"default":0', ""), False),
        ("NONE", LONG, TEXT, True),
    ],
)
def test_a_level_says_who_must_be_able_to_read_whom(registry: Registry, level: str, old: str, new: str, accepted: bool) -> None:
    registry.do(set_config, None, {"compatibility": level})
    registry.register("a", old)

    if accepted:
        assert registry.register("a", new).version == 2
    else:
        assert code(lambda: registry.register("a", new)) == 40901


def test_a_transitive_level_looks_at_every_version(registry: Registry) -> None:
    with_default = TOTAL
    required = TOTAL.replace(',"default":0', "")
    registry.do(set_config, "a", {"compatibility": "BACKWARD"})
    registry.register("a", LONG)
    registry.register("a", with_default)
    registry.do(set_config, "a", {"compatibility": "BACKWARD_TRANSITIVE"})

    assert code(lambda: registry.register("a", required)) == 40901  # who has it cannot read version 1
    registry.do(set_config, "a", {"compatibility": "BACKWARD"})
    assert registry.register("a", required).version == 3


def test_only_schemas_of_the_same_group_are_held_against_each_other(registry: Registry) -> None:
    registry.do(set_config, "a", {"compatibilityGroup": "major"})
    registry.register("a", LONG, kept={"metadata": {"properties": {"major": "1"}}})

    second = registry.register("a", TEXT, kept={"metadata": {"properties": {"major": "2"}}})

    assert second.version == 2
    assert second.content.kept == {"metadata": {"properties": {"major": "2"}}}
    assert code(lambda: registry.register("a", '"int"', kept={"metadata": {"properties": {"major": "2"}}})) == 40901


def test_deleting_is_soft_before_it_is_for_good(registry: Registry) -> None:
    registry.register("a", LONG)
    registry.register("a", TOTAL)

    assert code(lambda: registry.do(delete_version, "a", 1, permanent=True)) == 40407
    assert registry.do(delete_version, "a", 1, permanent=False) == 1
    assert code(lambda: registry.do(delete_version, "a", 1, permanent=False)) == 40406
    assert registry.catalog.by_id(".", 1) is not None
    assert registry.do(delete_version, "a", 1, permanent=True) == 1
    assert registry.catalog.by_id(".", 1) is None
    assert code(lambda: registry.do(delete_subject, "a", permanent=True)) == 40405
    assert registry.do(delete_subject, "a", permanent=False) == [2]
    assert code(lambda: registry.do(delete_subject, "a", permanent=False)) == 40404
    assert registry.do(delete_subject, "a", permanent=True) == [2]
    assert code(lambda: registry.do(delete_subject, "a", permanent=False)) == 40401


def test_what_was_soft_deleted_keeps_its_id_and_comes_back_with_the_next_version(registry: Registry) -> None:
    first = registry.register("a", LONG)
    registry.do(delete_subject, "a", permanent=False)

    back = registry.register("a", LONG)

    assert (back.id, back.version) == (first.id, 2)
    assert [each.version for each in registry.catalog.versions("a", deleted=True)] == [2]


def test_an_id_that_was_deleted_for_good_is_never_given_again(registry: Registry) -> None:
    registry.register("a", LONG)
    registry.do(delete_subject, "a", permanent=False)
    registry.do(delete_subject, "a", permanent=True)

    assert registry.register("b", TEXT).id == 2


def test_what_is_referred_to_is_not_deleted(registry: Registry) -> None:
    registry.register("order", LONG)
    user = '{"type":"record","name":"Bill","fields":[{"name":"of","type":"Order"}]}'
    registry.register("bill", user, references=(Reference(name="Order", subject="order", version=1),))

    assert code(lambda: registry.do(delete_version, "order", 1, permanent=False)) == 42206
    assert code(lambda: registry.do(delete_subject, "order", permanent=False)) == 42206
    registry.do(delete_subject, "bill", permanent=False)
    registry.do(delete_subject, "order", permanent=False)
    assert code(lambda: registry.do(delete_subject, "order", permanent=True)) == 42206


def test_a_reference_to_what_does_not_exist_is_refused(registry: Registry) -> None:
    missing = (Reference(name="Order", subject="order", version=1),)

    assert code(lambda: registry.register("bill", LONG, references=missing)) == 42201


def test_a_reference_without_a_context_means_that_of_who_refers() -> None:
    assert beside(":.ctx:bill", "order") == ":.ctx:order"
    assert beside(":.ctx:bill", ":.other:order") == ":.other:order"
    assert beside("bill", "order") == "order"


def test_read_only_subjects_take_nothing(registry: Registry) -> None:
    registry.register("a", LONG)
    registry.do(set_mode, "a", "readonly", force=False)

    assert code(lambda: registry.register("a", TOTAL)) == 42205
    assert code(lambda: registry.do(delete_subject, "a", permanent=False)) == 42205
    assert code(lambda: registry.do(set_config, "a", {"compatibility": "FULL"})) == 42205
    assert registry.register("a", LONG).version == 1  # what is there already may be asked for
    assert registry.do(delete_mode, "a", recursive=False) == "READONLY"
    assert registry.register("a", TOTAL).version == 2


def test_an_import_brings_its_ids_and_versions(registry: Registry) -> None:
    assert code(lambda: registry.register("a", LONG, id=77)) == 42205
    registry.do(set_mode, None, "IMPORT", force=False)

    imported = registry.register("a", LONG, id=77, version=4)

    assert (imported.id, imported.version) == (77, 4)
    assert code(lambda: registry.register("b", TEXT, id=77)) == 42205
    assert code(lambda: registry.register("b", TEXT)) == 42205
    registry.do(set_mode, None, "READWRITE", force=False)
    assert registry.register("b", TEXT).id == 78


def test_import_needs_an_empty_registry_or_force(registry: Registry) -> None:
    registry.register("a", LONG)

    assert code(lambda: registry.do(set_mode, None, "IMPORT", force=False)) == 42205
    registry.do(delete_subject, "a", permanent=False)
    registry.do(set_mode, None, "IMPORT", force=False)
    assert registry.catalog.versions("a", deleted=True) == []


def test_settings_are_those_of_the_subject_else_of_its_context_else_of_all(registry: Registry) -> None:
    assert config_in_scope(registry.catalog, "a")["compatibilityLevel"] == "BACKWARD"
    registry.do(set_config, ":.__GLOBAL:", {"compatibility": "FULL"})
    registry.do(set_config, None, {"compatibility": "FORWARD"})
    registry.do(set_config, ":.ctx:", {"compatibility": "NONE"})
    registry.do(set_config, ":.ctx:a", {"normalize": True})

    assert config_in_scope(registry.catalog, "a")["compatibilityLevel"] == "FORWARD"
    assert config_in_scope(registry.catalog, ":.ctx:b")["compatibilityLevel"] == "NONE"
    assert config_in_scope(registry.catalog, ":.other:b")["compatibilityLevel"] == "FULL"
    assert own_config(registry.catalog, ":.ctx:a")["normalize"] is True
    assert code(lambda: own_config(registry.catalog, "a")) == 40408
    assert code(lambda: own_mode(registry.catalog, "a")) == 40409
    registry.do(delete_config, None)
    assert config_in_scope(registry.catalog, "a")["compatibilityLevel"] == "FULL"
    assert mode_in_scope(registry.catalog, ":.ctx:a") == "READWRITE"


def test_what_is_not_accepted_is_named(registry: Registry) -> None:
    assert code(lambda: registry.do(set_config, None, {"compatibility": "sideways"})) == 42203
    assert code(lambda: registry.do(set_config, None, {"colour": "blue"})) == 422
    assert code(lambda: registry.do(set_mode, None, "sideways", force=False)) == 42204
    assert code(lambda: registry.do(set_mode, "a", "FORWARD", force=False)) == 42205
    assert code(lambda: registry.register("__GLOBAL", LONG)) == 42208
    assert code(lambda: registry.register("a\n", LONG)) == 42208
    assert code(lambda: registry.register("a", "{")) == 42201
    assert code(lambda: registry.register("a", " ")) == 42201
    assert code(lambda: registry.register("a", "x" * 1_000_001)) == 42209
    assert code(lambda: registry.register("a", LONG, version=3)) == 42201


def test_a_context_is_deleted_when_it_is_empty(registry: Registry) -> None:
    registry.register(":.ctx:a", LONG)

    assert code(lambda: registry.do(delete_context, ".ctx")) == 42211
    registry.do(delete_subject, ":.ctx:a", permanent=False)
    registry.do(delete_subject, ":.ctx:a", permanent=True)
    registry.do(delete_context, ".ctx")
    assert registry.catalog.every_context() == ["."]


def test_names_of_subjects_have_one_spelling() -> None:
    assert normal(":.:orders") == "orders"
    assert normal(":.ctx") == normal(":.ctx:") == ":.ctx:"
    assert valid("orders-value")
    assert not valid(":.ctx:")
    assert valid(":.ctx:", for_settings=True)


ACTS = st.lists(
    st.tuples(
        st.sampled_from(("register", "soft", "hard", "soft version", "hard version")),
        st.sampled_from(("a", "b", ":.ctx:a", ":.ctx:b")),
        st.integers(0, 5),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(ACTS)
def test_whatever_is_done_an_id_means_one_schema_for_ever(acts: list[tuple[str, str, int]]) -> None:
    registry, meant = Registry(), dict[tuple[str, int], str]()
    registry.do(set_config, None, {"compatibility": "NONE"})
    registry.do(set_config, ":.ctx:", {"compatibility": "NONE"})
    for act, subject, number in acts:
        try:
            match act:
                case "register":
                    text = f'{{"type":"fixed","name":"F","size":{number + 1}}}'
                    found = registry.register(subject, text)
                    context = ".ctx" if subject.startswith(":") else "."
                    assert meant.setdefault((context, found.id), text) == text
                    wanted = Registration(subject=subject, content=Content(text=text))
                    assert look_up(registry.catalog, wanted, deleted=False) == found
                case "soft" | "hard":
                    registry.do(delete_subject, subject, permanent=act == "hard")
                case _:
                    registry.do(delete_version, subject, number or -1, permanent=act == "hard version")
        except RegistryError:
            pass

    for subject in registry.catalog.every_subject():
        numbers = [each.version for each in registry.catalog.versions(subject, deleted=True)]
        assert numbers == sorted(set(numbers))
        for each in registry.catalog.versions(subject, deleted=True):
            context = ".ctx" if subject.startswith(":") else "."
            assert registry.catalog.id_of(context, each.content.identity) == each.id
            assert meant[context, each.id] == each.content.text


def test_schemas_that_many_refer_to_are_gone_through_once(registry: Registry) -> None:
    """Each of thirty refers twice to the one before it: there are a billion ways from the last to the first."""
    for number in range(31):
        references = tuple(Reference(name=f"{way}{number - 1}", subject=f"s{number - 1}", version=1) for way in "ab" if number)
        content = Content(text='"int"', references=references)
        registry.catalog.apply([SchemaVersion(subject=f"s{number}", version=1, id=number + 1, content=content)])

    found = referenced(registry.catalog, "s30", content)

    assert list(found) == [f"{way}{number}" for number in range(30) for way in "ab"]
