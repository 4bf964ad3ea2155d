"""Acts on who may do what: rules, credentials and quotas.  Of a credential its iterations are told, no more."""

from collections.abc import Iterator

from headrace.broker.access.rules_on_wire import rule_of
from headrace.broker.audit.acts.act import Act, ActsOf, Surroundings, outcome
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.quotas import entity_name
from headrace.model.access.acls import AclRule, ResourceType
from headrace.model.access.scram import ScramMechanism
from headrace.model.errors import RequestError
from headrace.security.audit.events import Activity, Resource, ValueChange
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from headrace.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from headrace.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

RULE = "rule"
ITERATIONS = "iterations of {}"


def create_acls(around: Surroundings, request: CreateAclsRequest, context: RequestContext) -> ActsOf | None:
    before = frozenset(around.image().acls.values())

    def acts_of(response: CreateAclsResponse) -> Iterator[Act]:
        for creation, result in zip(request.creations, response.results, strict=True):
            rule = _rule(creation)
            text = None if rule is None else str(rule)
            yield Act(
                activity=Activity.CREATE,
                resources=_about(creation),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=() if rule is None else (ValueChange(RULE, text if rule in before else None, text),),
            )

    return acts_of


def _rule(creation: AclCreation) -> AclRule | None:
    try:
        return rule_of(creation)
    except RequestError:
        return None


def _about(rule: AclCreation | DeleteAclsMatchingAcl) -> tuple[Resource, ...]:
    """Whom a rule is for, and what it is about: whoever looks for either finds it."""
    return (Resource(_kind(rule.resource_type), rule.resource_name), Resource("PRINCIPAL", rule.principal))


def _kind(number: int) -> str:
    return ResourceType(number).name if number in set(ResourceType) else f"type {number}"


def delete_acls(around: Surroundings, request: DeleteAclsRequest, context: RequestContext) -> ActsOf | None:
    def acts_of(response: DeleteAclsResponse) -> Iterator[Act]:
        for asked, result in zip(request.filters, response.filter_results, strict=True):
            for removed in result.matching_acls:
                yield Act(
                    activity=Activity.DELETE,
                    resources=_about(removed),
                    error=outcome(removed.error_code),
                    detail=removed.error_message or "",
                    changes=(ValueChange(RULE, _text(removed), None),),
                )
            if not result.matching_acls:
                yield Act(
                    activity=Activity.DELETE,
                    resources=_asked_about(asked),
                    error=outcome(result.error_code),
                    detail=result.error_message or "no rule was found",
                )

    return acts_of


def _text(removed: DeleteAclsMatchingAcl) -> str:
    return str(
        rule_of(
            AclCreation(
                resource_type=removed.resource_type,
                resource_name=removed.resource_name,
                resource_pattern_type=removed.pattern_type,
                principal=removed.principal,
                host=removed.host,
                operation=removed.operation,
                permission_type=removed.permission_type,
            )
        )
    )


def _asked_about(asked: DeleteAclsFilter) -> tuple[Resource, ...]:
    found = [Resource(_kind(asked.resource_type_filter), asked.resource_name_filter or "*")]
    return (*found, *([] if asked.principal_filter is None else [Resource("PRINCIPAL", asked.principal_filter)]))


def alter_scram_credentials(
    around: Surroundings, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> ActsOf | None:
    kept = around.image().scram_credentials
    changes: dict[str, list[ValueChange]] = {}
    for user, number, after in [
        *((each.name, each.mechanism, None) for each in request.deletions),
        *((each.name, each.mechanism, each.iterations) for each in request.upsertions),
    ]:
        is_known = number in set(ScramMechanism)
        credential = kept.get((user, ScramMechanism(number))) if is_known else None
        title = ScramMechanism(number).title if is_known else f"mechanism {number}"
        before = None if credential is None else credential.iterations
        changes.setdefault(user, []).append(ValueChange(ITERATIONS.format(title), before, after))

    def acts_of(response: AlterUserScramCredentialsResponse) -> Iterator[Act]:
        for result in response.results:
            of_user = changes.get(result.user, [])
            is_removal = all(change.after is None for change in of_user)
            yield Act(
                activity=Activity.DELETE if is_removal else Activity.UPDATE,
                resources=(Resource("USER", result.user),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=tuple(of_user),
            )

    return acts_of


def alter_client_quotas(around: Surroundings, request: AlterClientQuotasRequest, context: RequestContext) -> ActsOf | None:
    if request.validate_only:
        return None
    names = [entity_name({part.entity_type: part.entity_name for part in entry.entity}) for entry in request.entries]
    before = {name: dict(around.image().quotas.get(name, {})) for name in names}

    def acts_of(response: AlterClientQuotasResponse) -> Iterator[Act]:
        for name, entry, result in zip(names, request.entries, response.entries, strict=True):
            yield Act(
                activity=Activity.UPDATE,
                resources=(Resource("QUOTA", name),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=tuple(
                    ValueChange(each.key, _number(before[name].get(each.key)), None if each.remove else each.value)
                    for each in entry.ops
                ),
            )

    return acts_of


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
