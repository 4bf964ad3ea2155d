"""Rules and credentials in the metadata: made, found, removed, and the same after every way through the store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.access.acls import OPERATIONS_MAX, create_acls, delete_acls, describe_acls
from headrace.controller.access.entries import (
    acl_key,
    decode_credential,
    decode_rule,
    encode_credential,
    encode_rule,
    parse_scram_key,
    scram_key,
)
from headrace.controller.access.scram_credentials import (
    Alteration,
    Deletion,
    Upsertion,
    alter_scram_credentials,
    create_scram_seed,
)
from headrace.controller.changes import AclChanged, ScramCredentialChanged
from headrace.controller.entries import ConditionalWrite, Event, Put
from headrace.controller.image import ClusterImage
from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import Principal, user
from headrace.model.access.scram import ScramMechanism, password_matches, salted_password
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.controller.images import carry_out, put

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


def rule(name: str = "orders", who: str = "ann") -> AclRule:
    return AclRule(principal=user(who), operation=Operation.READ, resource_type=ResourceType.TOPIC, resource_name=name)


def upsertion(name: str = "ann", mechanism: int = SHA_256, password: str = "s3cret", **parts: object) -> Upsertion:
    salted = salted_password(ScramMechanism(mechanism), password, b"salt", 4096) if mechanism in (1, 2) else b""
    whole: dict[str, object] = {"iterations": 4096, "salt": b"salt", "salted_password": salted}
    return Upsertion(user=name, mechanism=mechanism, **(whole | parts))  # type: ignore[arg-type]


@given(
    st.builds(
        AclRule,
        permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
        principal=st.builds(Principal, st.sampled_from(["User", "Group"]), TEXTS),
        host=st.sampled_from(["*", "10.0.0.0/8"]),
        operation=st.sampled_from(list(Operation)[2:]),
        resource_type=st.sampled_from(list(ResourceType)[2:]),
        resource_name=TEXTS,
        pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    )
)
def test_a_rule_is_kept_as_it_is(made: AclRule) -> None:
    assert decode_rule(encode_rule(made)) == made


def test_different_rules_have_different_keys() -> None:
    """Also where parts of one, run together, read like the other."""
    assert acl_key(rule("a", "bc")) != acl_key(rule("ab", "c"))
    assert acl_key(rule()) == acl_key(rule())


@given(TEXTS, st.sampled_from(ScramMechanism))
def test_a_users_key_is_read_back_whatever_the_name_holds(name: str, mechanism: ScramMechanism) -> None:
    key = scram_key(name, mechanism)

    assert parse_scram_key(key) == (name, mechanism)
    assert key.count("/") == 2


def test_rules_that_are_made_are_in_the_image_and_those_removed_are_not() -> None:
    image = ClusterImage()
    carry_out(image, create_acls([rule("a"), rule("b"), rule("a")]))
    assert set(image.acls.values()) == {rule("a"), rule("b")}

    carry_out(image, create_acls([rule("a")]))
    assert set(image.acls.values()) == {rule("a"), rule("b")}
    found, transactions = delete_acls(image, AclFilter(resource_name="a"))
    carry_out(image, transactions)

    assert found == [rule("a")]
    assert set(image.acls.values()) == {rule("b")}


def test_many_rules_are_made_in_bundles_that_a_store_takes() -> None:
    transactions = create_acls([rule(f"t{number}") for number in range(OPERATIONS_MAX * 2 + 1)])

    assert [len(each.operations) for each in transactions] == [OPERATIONS_MAX, OPERATIONS_MAX, 1]


def test_rules_are_described_resource_by_resource() -> None:
    image = ClusterImage()
    carry_out(image, create_acls([rule("b"), rule("a", "bob"), rule("a"), rule("b", "bob")]))

    assert describe_acls(image, AclFilter()) == [rule("a"), rule("a", "bob"), rule("b"), rule("b", "bob")]
    assert describe_acls(image, AclFilter(principal="User:bob", resource_name="b")) == [rule("b", "bob")]


def test_a_filter_with_unknown_parts_is_refused() -> None:
    for decide in (delete_acls, describe_acls):
        with pytest.raises(RequestError):
            decide(ClusterImage(), AclFilter(operation=Operation.UNKNOWN))  # type: ignore[operator]


def test_a_change_says_which_rule_came_and_which_went() -> None:
    image = ClusterImage()
    key = acl_key(rule())
    put(image, key, encode_rule(rule()))

    assert image.apply(Event(key, None, image.revision + 1)) == [AclChanged(rule(), None)]


def altered(image: ClusterImage, *alterations: Alteration) -> dict[str, ErrorCode]:
    """Carry out what can be, and answer as the reply would."""
    results = alter_scram_credentials(image, alterations)
    carry_out(image, [each for each in results.values() if isinstance(each, ConditionalWrite)])
    return {name: each.code if isinstance(each, RequestError) else ErrorCode.NONE for name, each in results.items()}


def test_a_credential_that_is_set_lets_its_user_in_and_one_that_is_removed_does_not() -> None:
    image = ClusterImage()

    assert altered(image, upsertion(), upsertion(mechanism=SHA_512)) == {"ann": ErrorCode.NONE}
    assert set(image.scram_credentials) == {("ann", SHA_256), ("ann", SHA_512)}
    assert password_matches(SHA_256, image.scram_credentials["ann", SHA_256], "s3cret")
    assert altered(image, Deletion(user="ann", mechanism=SHA_256), upsertion(mechanism=SHA_512, password="new")) == {
        "ann": ErrorCode.NONE
    }

    assert set(image.scram_credentials) == {("ann", SHA_512)}
    assert password_matches(SHA_512, image.scram_credentials["ann", SHA_512], "new")


def test_neither_the_password_nor_what_it_was_salted_to_is_kept() -> None:
    image = ClusterImage()
    asked = upsertion()

    (transaction,) = alter_scram_credentials(image, [asked]).values()

    assert isinstance(transaction, ConditionalWrite)
    (operation,) = transaction.operations
    assert isinstance(operation, Put)
    kept = decode_credential(operation.value)
    assert asked.salted_password not in (kept.stored_key, kept.server_key, kept.salt)
    assert b"s3cret" not in operation.value
    assert repr(asked.salted_password) not in repr(asked)
    assert decode_credential(encode_credential(kept)) == kept


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (upsertion(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(name="ann\n"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(name="ⅸ"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b"x" * 257), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b"x" * 31), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion(user="ann", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion(user="", mechanism=1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion(user="nobody", mechanism=1), ErrorCode.RESOURCE_NOT_FOUND),
        (Deletion(user="nobody\n", mechanism=1), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_cannot_be_set_is_refused_and_does_not_hold_up_the_others(alteration: Alteration, code: ErrorCode) -> None:
    image = ClusterImage()

    results = altered(image, alteration, upsertion(name="bob"))

    assert results == {alteration.user: code, "bob": ErrorCode.NONE}
    assert set(image.scram_credentials) == {("bob", SHA_256)}


def test_a_credential_cannot_be_altered_twice_at_once() -> None:
    image = ClusterImage()

    assert altered(image, upsertion(), upsertion(password="x")) == {"ann": ErrorCode.DUPLICATE_RESOURCE}
    assert not image.scram_credentials


def test_a_change_says_whose_credential_it_was() -> None:
    image = ClusterImage()
    altered(image, upsertion("a/b"))
    key = scram_key("a/b", SHA_256)

    assert image.apply(Event(key, None, image.revision + 1)) == [ScramCredentialChanged("a/b", SHA_256)]


def test_the_first_seed_stays() -> None:
    image = ClusterImage()
    first, second = create_scram_seed(b"one"), create_scram_seed(b"two")

    carry_out(image, [first])

    assert image.scram_seed == b"one"
    assert not all(image.holds(condition) for condition in second.conditions)
