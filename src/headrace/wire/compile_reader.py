"""Writes, for one message class and one version, the Python source of a function that reads it, and compiles it.

The function is one straight run through the frame: neighbouring fields of fixed size are read by a single `unpack_from`, nested
structs and arrays are read in line.  What always holds for a compiled reader:

- a length is compared with the bytes that are left before anything is allocated for it;
- it raises only WireError, struct.error, IndexError or UnicodeDecodeError, all of which `codec.decode` reports as WireError.
"""

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from headrace.declaring import is_frozen
from headrace.wire.errors import WireError
from headrace.wire.function_source import FunctionSource
from headrace.wire.schema import Buffer, Field, Scalar, Sized, WireType, array, batches, fields_of, layout_of, uuid
from headrace.wire.varint import read_uvarint

Reader = Callable[[Buffer, int, int, int], tuple[Any, int]]
"""(buffer, position, limit, how many array items it may hold) -> (message, position behind it)."""

STRING_BYTES_MAX = 32767


def compile_reader(message: type, version: int) -> Reader:
    """A function that reads this version of the message.

    It reads from bytes, except where the message carries records: then it takes any buffer, and the records are views of it.
    """
    return _ReaderSource(version, layout_of(message).is_flexible(version), carries_records(message)).compile(message)


@cache
def carries_records(wire_type: WireType) -> bool:
    """Whether record batches travel in a message, a struct or an array."""
    match wire_type:
        case Scalar() | Sized():
            return wire_type is batches
        case array():
            return carries_records(wire_type.element)
        case _:
            return any(carries_records(field.type) for field in fields_of(wire_type))


@lru_cache(maxsize=4096)
def uuid_from_bytes(data: bytes) -> UUID:
    """Topic ids come again and again, and a UUID is slow to make."""
    return UUID(bytes=data)


class _ReaderSource(FunctionSource):
    """The source under construction.  `fixed` holds fields of fixed size that wait to be read together."""

    def __init__(self, version: int, flexible: bool, zero_copy: bool) -> None:
        names = {
            "WireError": WireError,
            "new": object.__new__,
            "read_uvarint": read_uvarint,
            "uuid_from_bytes": uuid_from_bytes,
            "unpack_from": struct.unpack_from,
        }
        super().__init__(version, flexible, names)
        self.zero_copy = zero_copy
        self.fixed: list[tuple[str, Scalar]] = []

    def compile(self, message: type) -> Reader:
        self.emit(0, "def read(buffer, position, limit, items_left):")
        if self.zero_copy:
            self.emit(1, "view = memoryview(buffer)")
        result = self.struct_(message, 1)
        self.emit(1, f"return {result}, position")
        reader: Reader = self.compiled("read")
        return reader

    def struct_(self, message: type, depth: int) -> str:
        """Emit the reading of all fields; return the expression that is the struct."""
        values: dict[str, str] = {}
        tagged: list[tuple[Field, str]] = []
        for field in fields_of(message):
            if not field.in_version(self.version) or (field.tag is not None and not self.flexible):
                values[field.name] = self.default_of(message, field)
                continue
            variable = values[field.name] = self.fresh(field.name)
            if field.tag is not None:
                tagged.append((field, variable))
            else:
                self.value(field.type, variable, field.nullable_in(self.version), depth, f"{message.__name__}.{field.name}")
        self.flush(depth)
        if self.flexible:
            self.tags(message, tagged, depth)
        return self.build(message, values, depth)

    def default_of(self, message: type, field: Field) -> str:
        if field.default is None:
            raise TypeError(f"{message.__name__}.{field.name} is not in version {self.version} and so needs a default")
        return self.constant("default", field.default())

    def build(self, message: type, values: dict[str, str], depth: int) -> str:
        """One that may be changed is filled field by field, in less than half the time that a call of its class takes."""
        class_name = self.constant(message.__name__, message)
        if is_frozen(message):
            return f"{class_name}({', '.join(f'{name}={value}' for name, value in values.items())})"
        made = self.fresh("made")
        self.emit(depth, f"{made} = new({class_name})")
        for name, value in values.items():
            self.emit(depth, f"{made}.{name} = {value}")
        return made

    def value(self, wire_type: WireType, variable: str, nullable: bool, depth: int, label: str) -> None:
        match wire_type:
            case Scalar():
                self.fixed.append((variable, wire_type))
            case Sized():
                self.sized(wire_type, variable, nullable, depth, label)
            case array():
                self.array_(wire_type.element, variable, nullable, depth, label)
            case _:
                self.nested(wire_type, variable, nullable, depth)

    def flush(self, depth: int, length: str | None = None, length_code: str = "") -> None:
        """Read the waiting fields of fixed size, and with them the length that follows, if one does."""
        items = self.fixed
        self.fixed = []
        targets = [name for name, _ in items] + ([length] if length else [])
        if not targets:
            return
        layout = struct.Struct(">" + "".join(scalar.code for _, scalar in items) + length_code)
        unpack = self.constant("unpack", layout.unpack_from)
        self.emit(depth, f"{', '.join(targets)}, = {unpack}(buffer, position)")
        self.emit(depth, f"position += {layout.size}")
        for name, scalar in items:
            if scalar is uuid:
                self.emit(depth, f"{name} = uuid_from_bytes({name})")

    def length(self, code: str, depth: int) -> str:
        """Emit the reading of a length or count; the variable holds -1 for null."""
        variable = self.fresh("length")
        if not self.flexible:
            self.flush(depth, variable, code)
            return variable
        self.flush(depth)
        self.emit(depth, f"{variable} = buffer[position] - 1")
        self.emit(depth, "position += 1")
        self.emit(depth, f"if {variable} > 126:")
        # Two bytes, as most small batches have them, are read in line.
        self.emit(depth + 1, "if buffer[position] < 128:")
        self.emit(depth + 2, f"{variable} += (buffer[position] << 7) - 128")
        self.emit(depth + 2, "position += 1")
        self.emit(depth + 1, "else:")
        self.emit(depth + 2, f"{variable}, position = read_uvarint(buffer, position - 1)")
        self.emit(depth + 2, f"{variable} -= 1")
        return variable

    def refuse(self, condition: str, complaint: str, depth: int) -> None:
        self.emit(depth, f"if {condition}:")
        self.emit(depth + 1, f"raise WireError({complaint!r})")

    def null_or(self, variable: str, length: str, nullable: bool, depth: int, label: str) -> int:
        """Emit what a negative length means; return the depth at which the other case goes on."""
        if not nullable:
            self.refuse(f"{length} < 0", f"{label} must not be null", depth)
            return depth
        self.emit(depth, f"if {length} == -1:")
        self.emit(depth + 1, f"{variable} = None")
        self.emit(depth, "else:")
        if not self.flexible:
            self.refuse(f"{length} < 0", f"{label} has a negative length", depth + 1)
        return depth + 1

    def sized(self, wire_type: Sized, variable: str, nullable: bool, depth: int, label: str) -> None:
        length = self.length("h" if wire_type.text else "i", depth)
        depth = self.null_or(variable, length, nullable, depth, label)
        if wire_type.text and self.flexible:
            # The protocol holds compact strings to the old limit too; a longer one could not be written in an old version.
            self.refuse(f"{length} > {STRING_BYTES_MAX}", f"{label} is longer than {STRING_BYTES_MAX} bytes", depth)
        end = self.fresh("end")
        self.emit(depth, f"{end} = position + {length}")
        self.refuse(f"{end} > limit", f"{label} runs past the end", depth)
        self.emit(depth, f"{variable} = {self.slice(wire_type, end)}")
        self.emit(depth, f"position = {end}")

    def slice(self, wire_type: Sized, end: str) -> str:
        if wire_type is batches:
            return f"view[position:{end}]"
        if wire_type.text:
            return f"str(buffer[position:{end}], 'utf-8')" if self.zero_copy else f"buffer[position:{end}].decode()"
        return f"bytes(buffer[position:{end}])" if self.zero_copy else f"buffer[position:{end}]"

    def array_(self, element: WireType, variable: str, nullable: bool, depth: int, label: str) -> None:
        count = self.length("i", depth)
        depth = self.null_or(variable, count, nullable, depth, label)
        size = smallest_size(element, self.version, self.flexible)
        self.refuse(f"{count} * {size} > limit - position", f"{label} counts more items than there are bytes", depth)
        self.emit(depth, f"items_left -= {count}")
        self.refuse("items_left < 0", f"{label} exceeds the number of items that a message may hold", depth)
        if isinstance(element, Scalar):
            self.scalars(element, variable, count, depth)
            return
        items, item = self.fresh("items"), self.fresh("item")
        self.emit(depth, f"{items} = []")
        self.emit(depth, f"for _ in range({count}):")
        if isinstance(element, type):
            self.emit(depth + 1, f"{items}.append({self.struct_(element, depth + 1)})")
        else:
            self.value(element, item, False, depth + 1, label)
            self.emit(depth + 1, f"{items}.append({item})")
        self.emit(depth, f"{variable} = tuple({items})")

    def scalars(self, element: Scalar, variable: str, count: str, depth: int) -> None:
        few = self.constant("few", [struct.Struct(f">{element.code * n}").unpack_from for n in range(8)])
        many = f"unpack_from(f'>{{{count}}}{element.code}', buffer, position)"
        if element is uuid:  # a repeat count would run into the 16 of 16s
            many = f"unpack_from('>' + '16s' * {count}, buffer, position)"
        self.emit(depth, f"{variable} = {few}[{count}](buffer, position) if {count} < 8 else {many}")
        self.emit(depth, f"position += {count} * {element.size}")
        if element is uuid:
            self.emit(depth, f"{variable} = tuple(map(uuid_from_bytes, {variable}))")

    def nested(self, message: type, variable: str, nullable: bool, depth: int) -> None:
        if nullable:
            # A struct that may be null has a byte before it: -1 for null, 1 for present.
            self.flush(depth)
            self.emit(depth, "present = buffer[position]")
            self.emit(depth, "position += 1")
            self.emit(depth, "if present > 127:")
            self.emit(depth + 1, f"{variable} = None")
            self.emit(depth, "else:")
            depth += 1
        self.emit(depth, f"{variable} = {self.struct_(message, depth)}")

    def tags(self, message: type, tagged: list[tuple[Field, str]], depth: int) -> None:
        for field, variable in tagged:
            if field.default is None:
                raise TypeError(f"{message.__name__}.{field.name} is tagged and so needs a default")
            self.emit(depth, f"{variable} = {self.constant('default', field.default())}")
        count = self.fresh("count")
        self.emit(depth, f"{count} = buffer[position]")
        self.emit(depth, "position += 1")
        self.emit(depth, f"if {count}:")
        depth += 1
        self.emit(depth, f"if {count} > 127:")
        self.emit(depth + 1, f"{count}, position = read_uvarint(buffer, position - 1)")
        self.emit(depth, f"for _ in range({count}):")
        depth += 1
        tag, stop = self.fresh("tag"), self.fresh("stop")
        self.emit(depth, f"{tag}, position = read_uvarint(buffer, position)")
        self.emit(depth, f"{stop}, position = read_uvarint(buffer, position)")
        self.emit(depth, f"{stop} += position")
        self.refuse(f"{stop} > limit", f"a tagged field of {message.__name__} runs past the end", depth)
        for field, variable in tagged:
            label = f"{message.__name__}.{field.name}"
            self.emit(depth, f"if {tag} == {field.tag}:")
            self.value(field.type, variable, field.nullable_in(self.version), depth + 1, label)
            self.flush(depth + 1)
            self.refuse(f"position != {stop}", f"{label} does not fill its tagged field", depth + 1)
        self.emit(depth, f"position = {stop}")


def smallest_size(wire_type: WireType, version: int, flexible: bool) -> int:
    """How many bytes a value of this type takes at the very least; never 0, so that counts stay bounded by the bytes left."""
    match wire_type:
        case Scalar():
            return wire_type.size
        case Sized():
            return 1 if flexible else 2 if wire_type.text else 4
        case array():
            return 1 if flexible else 4
        case _:
            total = 1 if flexible else 0
            for field in fields_of(wire_type):
                if field.in_version(version) and field.tag is None:
                    is_struct = isinstance(field.type, type)
                    null = is_struct and field.nullable_in(version)
                    total += 1 if null else smallest_size(field.type, version, flexible)
            return max(1, total)
