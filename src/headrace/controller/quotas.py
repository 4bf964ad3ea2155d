"""Whom a quota is for, how it is kept in the store, and which one counts for a client (KIP-13, KIP-546).

An entity names a user, a client id, both, an address or (ours) a topic; a part that is None is the default for all who have none.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, unquote

from headrace.controller.entries import QUOTAS, Compare, ConditionalWrite, Delete, Operation, Put, encode_configs
from headrace.controller.image import ClusterImage
from headrace.model.errors import ErrorCode, RequestError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TOPIC: Final = "topic"
DEFAULT: Final = "<default>"
SHAPES: Final = ({USER}, {CLIENT_ID}, {USER, CLIENT_ID}, {IP}, {TOPIC})

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
STORAGE_BYTES: Final = "storage_bytes"
CLIENT_QUOTAS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
TOPIC_QUOTAS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, STORAGE_BYTES})

Entity = Mapping[str, str | None]


def entity_name(entity: Entity) -> str:
    """The entity as part of a key: the same for the same entity, whatever the order of its parts."""
    return ",".join(f"{kind}={DEFAULT if name is None else quote(name, safe='')}" for kind, name in sorted(entity.items()))


def parse_entity(name: str) -> dict[str, str | None]:
    parts = (part.partition("=") for part in name.split(","))
    return {kind: None if value == DEFAULT else unquote(value) for kind, _, value in parts}


def alter(image: ClusterImage, entity: Entity, changes: Mapping[str, float | None]) -> ConditionalWrite:
    """Set some limits of an entity and remove others (None).  Raises RequestError."""
    _check(entity, changes)
    name = entity_name(entity)
    limits = dict(image.quotas.get(name, {}))
    for quota, limit in changes.items():
        limits.pop(quota, None)
        if limit is not None:
            limits[quota] = repr(float(limit))
    key = QUOTAS + name
    operation: Operation = Put(key, encode_configs(limits)) if limits else Delete(key)
    return ConditionalWrite((Compare(key, image.mod_revision(key)),), (operation,))


def _check(entity: Entity, changes: Mapping[str, float | None]) -> None:
    kinds = set(entity)
    if kinds not in SHAPES:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"There are no quotas for {' and '.join(sorted(kinds)) or 'nobody'}; "
            "quotas are for user, client-id, user and client-id, ip, or topic.",
        )
    if any(name == "" for name in entity.values()):
        raise RequestError(ErrorCode.INVALID_REQUEST, "An entity cannot have an empty name.")
    if (address := entity.get(IP)) is not None:
        _check_address(address)
    known = {IP: frozenset({CONNECTION_CREATION_RATE}), TOPIC: TOPIC_QUOTAS}.get(next(iter(kinds)), CLIENT_QUOTAS)
    for quota, limit in changes.items():
        if quota not in known:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown quota {quota}; known are {', '.join(sorted(known))}.")
        if limit is not None and not limit > 0:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Quota {quota} must be greater than 0.")


def _check_address(address: str) -> None:
    """As connections show it: another spelling of the same address would never be met."""
    try:
        spelled = str(ip_address(address))
    except ValueError:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{address} is not an IP address.") from None
    if spelled != address:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The address {address} is spelled {spelled}.")


def shared_limit_for(
    quotas: Mapping[str, Mapping[str, str]], quota: str, user: str, client_id: str
) -> tuple[float, tuple[str, ...]] | None:
    """The limit of the most specific entity that has one, and who shares it: all clients of a user where the user has it, all
    users of a client id where that has it."""
    names = {USER: user, CLIENT_ID: client_id}
    for entity in _precedence(user, client_id):
        limit = quotas.get(entity_name(entity), {}).get(quota)
        if limit is not None:
            return float(limit), tuple(f"{kind}={names[kind]}" for kind in sorted(entity))
    return None


def limit_for_topic(quotas: Mapping[str, Mapping[str, str]], quota: str, topic: str) -> float | None:
    for name in (topic, None):
        limit = quotas.get(entity_name({TOPIC: name}), {}).get(quota)
        if limit is not None:
            return float(limit)
    return None


def limit_for_address(quotas: Mapping[str, Mapping[str, str]], quota: str, address: str) -> float | None:
    for name in (address, None):
        limit = quotas.get(entity_name({IP: name}), {}).get(quota)
        if limit is not None:
            return float(limit)
    return None


def _precedence(user: str, client_id: str) -> Iterator[Entity]:
    yield {USER: user, CLIENT_ID: client_id}
    yield {USER: user, CLIENT_ID: None}
    yield {USER: user}
    yield {USER: None, CLIENT_ID: client_id}
    yield {USER: None, CLIENT_ID: None}
    yield {USER: None}
    yield {CLIENT_ID: client_id}
    yield {CLIENT_ID: None}
