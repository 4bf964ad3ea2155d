"""The rules that a broker holds to are those of its image, changed as the metadata change."""

from headrace.broker.access.rules import AccessRules
from headrace.controller.access.entries import acl_key
from headrace.controller.changes import AclChanged
from headrace.controller.image import ClusterImage
from headrace.model.access.acls import AclRule, Operation, ResourceType
from headrace.model.access.principals import Subject, user
from headrace.model.broker_settings import BrokerConfig

READ = AclRule(principal=user("ann"), operation=Operation.READ, resource_type=ResourceType.TOPIC, resource_name="orders")
MADE, REMOVED = AclChanged(None, READ), AclChanged(READ, None)


def rules(*held: AclRule, **settings: str) -> tuple[AccessRules, ClusterImage]:
    image = ClusterImage()
    image.acls.update({acl_key(rule): rule for rule in held})
    return AccessRules(BrokerConfig({"authorizer": "acl", **settings}), lambda: image), image


def may_read(access: AccessRules) -> bool:
    assert access.guard.authorizer is not None
    return access.guard.authorizer.allows(Subject(user("ann")), Operation.READ, ResourceType.TOPIC, "orders")


def test_a_broker_starts_with_the_rules_there_are() -> None:
    assert may_read(rules(READ)[0])
    assert not may_read(rules()[0])


def test_a_change_holds_from_the_next_decision_on() -> None:
    access, _ = rules()

    before = may_read(access)
    access.on_changes([MADE])
    made = may_read(access)
    access.on_changes([REMOVED])

    assert (before, made, may_read(access)) == (False, True, False)


def test_of_a_rule_that_changes_twice_at_once_the_last_change_counts() -> None:
    access, _ = rules()

    access.on_changes([MADE, REMOVED])
    gone = may_read(access)
    access.on_changes([MADE, REMOVED, MADE])

    assert (gone, may_read(access)) == (False, True)


def test_a_broker_that_hears_of_no_change_goes_on_with_what_it_knew_and_sees_all_when_it_looks_anew() -> None:
    access, image = rules(READ)

    image.acls.clear()
    unheard = may_read(access)
    access.renew()

    assert (unheard, may_read(access)) == (True, False)


def test_without_an_authorizer_changes_of_rules_change_nothing() -> None:
    access, _ = rules(READ, authorizer="none")

    access.on_changes([MADE])
    access.renew()

    assert access.guard.authorizer is None
