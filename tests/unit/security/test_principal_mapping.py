"""`ssl.principal.mapping.rules`.  `names_mapped_by_kafka.jsonl` holds what Kafka's SslPrincipalMapper (4.3.1) makes of names."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.authentication.principal_mapping import MappingError, PrincipalMapping

SAMPLES = [json.loads(line) for line in (Path(__file__).parent / "names_mapped_by_kafka.jsonl").read_text().splitlines()]
WE_REFUSE = {r"RULE:CN=(\p{Alpha}*).*/$1/"}  # Python's expressions have no \p


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["rules"])
def test_names_are_mapped_as_kafka_maps_them(sample: dict[str, object]) -> None:
    rules, names = str(sample["rules"]), sample["names"]
    if names == "refused" or rules in WE_REFUSE:
        with pytest.raises(MappingError):
            PrincipalMapping(rules)
        return
    mapping = PrincipalMapping(rules)

    assert isinstance(names, dict)
    assert {name: mapping.name_of(name) or ("!none" if mapping.name_of(name) is None else "") for name in names} == names


def test_without_rules_of_its_own_a_listener_takes_the_whole_name() -> None:
    assert PrincipalMapping().name_of("CN=ann,O=Acme") == "CN=ann,O=Acme"


@pytest.mark.parametrize("rules", ["RULE:CN=(.*)/a\\/", "RULE:CN=(?<a>.*)/${b}/", "RULE:CN=(.*)/${}/"])
def test_a_replacement_that_means_nothing_is_refused(rules: str) -> None:
    with pytest.raises(MappingError):
        PrincipalMapping(rules)


@given(st.text(max_size=60))
def test_any_text_is_a_list_of_rules_or_refused(text: str) -> None:
    try:
        mapping = PrincipalMapping(text)
    except MappingError:
        return
    mapping.name_of("CN=ann")


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_name_cannot_smuggle_in_a_replacement(name: str, other: str) -> None:
    """What a certificate says is put in as it is: `$1` in a name is no group."""
    mapping = PrincipalMapping("RULE:CN=([^,]*).*/$1/")

    mapped = mapping.name_of(f"CN={name}")

    assert mapped in (None, name.partition(",")[0])
