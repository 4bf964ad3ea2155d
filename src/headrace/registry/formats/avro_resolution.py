"""Whether a reader's Avro schema resolves a writer's, by Apache's own library, in a time that does not grow with the square of
a schema: the library makes a table of all fields for each field, looks pairs up in a table whose keys mostly collide, and copies
all that it found for each thing it finds."""

from __future__ import annotations

from typing import Any, Final

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
    SchemaIncompatibilityType,
    incompatible,
)
from avro.schema import Schema

STEPS_MAX: Final = 300_000  # some seconds
FOUND_MAX: Final = 100  # of one record; more than anybody reads

COMPATIBLE: Final = SchemaCompatibilityResult(SchemaCompatibilityType.compatible)


class TooLarge(Exception):
    """Two schemas that cannot be held against each other in a reasonable time."""


class Checker(ReaderWriterCompatibilityChecker):  # type: ignore[misc]  # the library has no types
    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._known: dict[tuple[int, int], SchemaCompatibilityResult] = {}
        self._fields: dict[int, tuple[Schema, dict[str, Any]]] = {}  # by the id of a writer's record, which is kept beside it

    def get_compatibility(
        self, reader: Schema, writer: Schema, reference_token: str = "/", location: list[str] | None = None
    ) -> SchemaCompatibilityResult:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise TooLarge
        # Schemas live as long as the checker does, so that ids are names.  The library's own key hashes both ids to one number,
        # which is the same for most fields of two records that were read one after the other.
        pair = (id(reader), id(writer))
        known = self._known.get(pair)
        if known is None:
            self._known[pair] = COMPATIBLE  # while it is looked at, which matters to what contains itself
            known = self.calculate_compatibility(reader, writer, [*(location or ()), reference_token])
            self._known[pair] = known
        return known

    def check_reader_writer_record_fields(self, reader: Any, writer: Any, location: list[str]) -> SchemaCompatibilityResult:
        written = self._fields.setdefault(id(writer), (writer, dict(writer.fields_dict)))[1]
        found: list[SchemaCompatibilityResult] = []
        for index, field in enumerate(reader.fields):
            result = self._field(field, written, writer, [*location, "fields", str(index)])
            if result is not None and result.compatibility is not SchemaCompatibilityType.compatible:
                found.append(result)
                if len(found) == FOUND_MAX:
                    break
        if not found:
            return COMPATIBLE
        return SchemaCompatibilityResult(
            found[0].compatibility,
            [each for result in found for each in result.incompatibilities],
            {each for result in found for each in result.messages},
            {each for result in found for each in result.locations},
        )

    def _field(self, field: Any, written: dict[str, Any], writer: Any, at: list[str]) -> SchemaCompatibilityResult | None:
        aliases = field.props.get("aliases")
        names = [field.name, *(aliases if isinstance(aliases, list | tuple) else ())]
        counterpart = next((written[name] for name in names if name in written), None)
        if counterpart is not None:
            return self.get_compatibility(field.type, counterpart.type, "type", at)
        if field.has_default:
            return None
        if field.type.type == "enum" and field.type.props.get("default"):
            return self.get_compatibility(field.type, writer, "type", at)
        return incompatible(SchemaIncompatibilityType.reader_field_missing_default_value, field.name, at)
