"""Refusals of the registry: the numbers that Confluent's clients know, with a sentence each.

Always: the first three digits of a code are the HTTP status.
"""

from __future__ import annotations

from collections.abc import Iterable


class RegistryError(Exception):
    """A request that is refused, and why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(what: object = "") -> RegistryError:
    return RegistryError(40403, f"Schema {what} not found" if what else "Schema not found")


def subject_is_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' is soft deleted already; set permanent=true to delete it for good.")


def subject_is_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' must be deleted without permanent=true first.")


def version_is_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406, f"Version {version} of subject '{subject}' is soft deleted already; set permanent=true to delete it for good."
    )


def version_is_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(40407, f"Version {version} of subject '{subject}' must be deleted without permanent=true first.")


def no_compatibility_of_its_own(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' has no compatibility level of its own; ask with defaultToGlobal=true.")


def no_mode_of_its_own(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' has no mode of its own; ask with defaultToGlobal=true.")


def incompatible(subject: str, problems: Iterable[str]) -> RegistryError:
    listed = "; ".join(problems)
    return RegistryError(40901, f"The schema is incompatible with an earlier one of subject '{subject}': {listed}")


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {reason}")


def invalid_version(given: object) -> RegistryError:
    return RegistryError(42202, f"'{given}' is not a version; accepted: a number from 1 to 2147483647, 'latest' or -1.")


def invalid_compatibility(given: object, accepted: Iterable[str]) -> RegistryError:
    return RegistryError(42203, f"'{given}' is not a compatibility level; accepted: {', '.join(accepted)}.")


def invalid_mode(given: object, accepted: Iterable[str]) -> RegistryError:
    return RegistryError(42204, f"'{given}' is not a mode; accepted: {', '.join(accepted)}.")


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(42205, reason)


def still_referenced(subject: str, version: int, by: Iterable[str]) -> RegistryError:
    return RegistryError(42206, f"Version {version} of subject '{subject}' is referenced by {', '.join(by)}.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"'{subject}' is not accepted as a subject.")


def schema_too_large(size: int, most: int) -> RegistryError:
    return RegistryError(
        42209, f"The schema has {size} bytes, with all that belongs to it; the most that are accepted are {most}."
    )


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(42211, f"Context '{context}' still has subjects; delete them first.")


def invalid_request(reason: str) -> RegistryError:
    return RegistryError(422, reason)


def store_timed_out(reason: str) -> RegistryError:
    return RegistryError(50002, f"The topic of the schemas did not answer in time: {reason}")
