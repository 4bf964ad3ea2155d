"""Setting and removing what is kept of users' passwords (KIP-554).  The password itself never comes here."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from headrace.controller.access.entries import SCRAM_SEED, encode_credential, encode_seed, scram_key
from headrace.controller.entries import Compare, ConditionalWrite, Delete, Operation, Put, absent
from headrace.controller.image import ClusterImage
from headrace.declaring import dataclass
from headrace.model.access.principals import PrincipalError, user
from headrace.model.access.saslprep import check_prepared
from headrace.model.access.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential_of
from headrace.model.errors import ErrorCode, RequestError

SALT_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsertion:
    """A credential to set: the password, salted and iterated by the client."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A credential to remove."""

    user: str
    mechanism: int


Alteration = Upsertion | Deletion


def alter_scram_credentials(
    image: ClusterImage, alterations: Iterable[Alteration]
) -> Mapping[str, ConditionalWrite | RequestError]:
    """What to do for each user, or what is wrong with what was asked for it: then nothing is done for that user."""
    by_user: dict[str, list[Alteration]] = {}
    for alteration in alterations:
        by_user.setdefault(alteration.user, []).append(alteration)
    return {name: _altered(image, each) for name, each in by_user.items()}


def create_scram_seed(seed: bytes) -> ConditionalWrite:
    """For whoever finds none: the first to write it decides for all."""
    return ConditionalWrite((absent(SCRAM_SEED),), (Put(SCRAM_SEED, encode_seed(seed)),))


def _altered(image: ClusterImage, alterations: list[Alteration]) -> ConditionalWrite | RequestError:
    try:
        if len({alteration.mechanism for alteration in alterations}) < len(alterations):
            message = "A user credential cannot be altered twice in the same request."
            raise RequestError(ErrorCode.DUPLICATE_RESOURCE, message)
        parts = [_operation(image, alteration) for alteration in alterations]
    except RequestError as error:
        return error
    return ConditionalWrite(tuple(condition for condition, _ in parts), tuple(operation for _, operation in parts))


def _operation(image: ClusterImage, alteration: Alteration) -> tuple[Compare, Operation]:
    if not alteration.user:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty.")
    try:
        mechanism = ScramMechanism(alteration.mechanism)
    except ValueError:
        raise RequestError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism.") from None
    if isinstance(alteration, Upsertion):
        _check(alteration, mechanism)
    elif (alteration.user, mechanism) not in image.scram_credentials:
        raise RequestError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist.")
    key = scram_key(alteration.user, mechanism)
    unchanged = Compare(key, image.mod_revision(key))
    if isinstance(alteration, Deletion):
        return unchanged, Delete(key)
    credential = credential_of(mechanism, alteration.salted_password, alteration.salt, alteration.iterations)
    return unchanged, Put(key, encode_credential(credential))


def _check(upsertion: Upsertion, mechanism: ScramMechanism) -> None:
    wrong = None
    try:
        user(upsertion.user)
        check_prepared(upsertion.user, "user name")
    except (PrincipalError, ValueError) as error:
        wrong = f"{error}.".capitalize()
    if upsertion.iterations < ITERATIONS_MIN:
        wrong = f"Too few iterations: at least {ITERATIONS_MIN} are needed."
    elif upsertion.iterations > ITERATIONS_MAX:
        wrong = f"Too many iterations: at most {ITERATIONS_MAX} are allowed."
    elif not 1 <= len(upsertion.salt) <= SALT_BYTES_MAX:
        wrong = f"A salt has from 1 to {SALT_BYTES_MAX} bytes."
    elif len(upsertion.salted_password) != mechanism.key_bytes:
        wrong = f"A salted password of {mechanism.title} has {mechanism.key_bytes} bytes."
    if wrong is not None:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, wrong)
