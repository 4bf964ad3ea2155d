"""Writes, for one message class and one version, the Python source of a function that encodes it, and compiles it.

Neighbouring fields of fixed size go out by a single `pack`.  Fields that the version does not carry are left out whatever
they hold, so that a reply can be built once for all versions.
"""

import struct
from collections.abc import Callable
from typing import Any

from headrace.wire.function_source import FunctionSource
from headrace.wire.schema import Buffer, Field, Scalar, Sized, WireType, array, batches, fields_of, layout_of, uuid
from headrace.wire.varint import ONE_BYTE, write_uvarint

Writer = Callable[[Any, Callable[[Buffer], None]], None]
"""(message, what takes the pieces)."""


def compile_writer(message: type, version: int) -> Writer:
    """A function that hands over the encoding of this version of the message piece by piece."""
    return _WriterSource(version, layout_of(message).is_flexible(version)).compile(message)


def pack_many(code: str, values: tuple[Any, ...]) -> bytes:
    """A run of scalars of one kind."""
    return struct.pack(f">{len(values)}{code}", *values)


class _WriterSource(FunctionSource):
    """The source under construction.  `fixed` holds expressions of fixed size that wait to be packed together."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible, {"uvarint": write_uvarint, "one_byte": ONE_BYTE, "pack_many": pack_many})
        self.fixed: list[tuple[str, str]] = []

    def compile(self, message: type) -> Writer:
        self.emit(0, "def write(message, add):")
        self.struct_(message, "message", 1, "add")
        self.flush(1, "add")
        self.emit(1, "return None")
        writer: Writer = self.compiled("write")
        return writer

    def struct_(self, message: type, source: str, depth: int, add: str) -> None:
        tagged = []
        for field in fields_of(message):
            if not field.in_version(self.version):
                continue
            if field.tag is None:
                self.value(field.type, f"{source}.{field.name}", field.nullable_in(self.version), depth, add)
            elif self.flexible:
                tagged.append(field)
        if self.flexible:
            self.tags(tagged, source, depth, add)

    def flush(self, depth: int, add: str, more: str = "") -> None:
        """Pack what waits; `more` is an expression for bytes that follow at once."""
        items, self.fixed = self.fixed, []
        codes = "".join(code for code, _ in items)
        if not codes:
            if more:
                self.emit(depth, f"{add}({more})")
            return
        if set(codes) == {"x"}:
            packed = repr(bytes(len(codes)))
        else:
            arguments = ", ".join(expression for code, expression in items if code != "x")
            packed = f"{self.constant('pack', struct.Struct('>' + codes).pack)}({arguments})"
        self.emit(depth, f"{add}({packed}{' + ' + more if more else ''})")

    def value(self, wire_type: WireType, source: str, nullable: bool, depth: int, add: str) -> None:
        match wire_type:
            case Scalar():
                self.fixed.append((wire_type.code, f"{source}.bytes" if wire_type is uuid else source))
            case Sized():
                self.sized(wire_type, source, nullable, depth, add)
            case array():
                self.array_(wire_type.element, source, nullable, depth, add)
            case _:
                self.nested(wire_type, source, nullable, depth, add)

    def sized(self, wire_type: Sized, source: str, nullable: bool, depth: int, add: str) -> None:
        data = self.fresh("data")
        self.emit(depth, f"{data} = {source}")
        code = "h" if wire_type.text else "i"
        if nullable:
            self.null(data, code, depth, add)
            depth += 1
        if wire_type.text:
            self.emit(depth, f"{data} = {data}.encode()")
            if self.flexible:
                self.emit(depth, f"if len({data}) > 32767: raise ValueError('a string of ' + str(len({data})) + ' bytes')")
        if wire_type is batches:
            self.records_(data, depth, add)
        else:
            self.count(data, code, depth, add, more=data)

    def records_(self, data: str, depth: int, add: str) -> None:
        """Records go out as they are, never copied; what was read from several places may be handed over as a list."""
        pieces, piece, size = self.fresh("pieces"), self.fresh("piece"), self.fresh("size")
        self.emit(depth, f"{pieces} = {data} if type({data}) is list else ({data},)")
        self.emit(depth, f"{size} = sum(map(len, {pieces}))")
        if self.flexible:
            self.flush(depth, add, _count_of(size))
        else:
            self.fixed.append(("i", size))
            self.flush(depth, add)
        self.emit(depth, f"for {piece} in {pieces}: {add}({piece})")

    def null(self, data: str, code: str, depth: int, add: str) -> None:
        """Emit the case of null and open the other one.  What waits is packed first, since the two cases go different ways."""
        self.flush(depth, add)
        self.emit(depth, f"if {data} is None:")
        null = b"\0" if self.flexible else struct.pack(f">{code}", -1)
        self.emit(depth + 1, f"{add}({null!r})")
        self.emit(depth, "else:")

    def count(self, data: str, code: str, depth: int, add: str, more: str = "") -> None:
        """Emit the length of something, with what waits before it and the bytes that follow it."""
        if not self.flexible:
            self.fixed.append((code, f"len({data})"))
            self.flush(depth, add, more)
        else:
            size = self.fresh("size")
            self.emit(depth, f"{size} = len({data})")
            self.flush(depth, add, _count_of(size) + (f" + {more}" if more else ""))

    def array_(self, element: WireType, source: str, nullable: bool, depth: int, add: str) -> None:
        items, item = self.fresh("items"), self.fresh("item")
        self.emit(depth, f"{items} = {source}")
        if nullable:
            self.null(items, "i", depth, add)
            depth += 1
        if isinstance(element, Scalar):
            few = self.constant("few", [struct.Struct(f">{element.code * n}").pack for n in range(8)])
            more = f"({few}[len({items})](*{items}) if len({items}) < 8 else pack_many({element.code!r}, {items}))"
            if element is uuid:
                more = f"b''.join([{item}.bytes for {item} in {items}])"
            self.count(items, "i", depth, add, more)
            return
        self.count(items, "i", depth, add)
        self.emit(depth, f"for {item} in {items}:")
        self.value(element, item, False, depth + 1, add)
        self.flush(depth + 1, add)
        self.emit(depth + 1, "pass")

    def nested(self, message: type, source: str, nullable: bool, depth: int, add: str) -> None:
        inner = self.fresh("struct")
        self.emit(depth, f"{inner} = {source}")
        if not nullable:
            self.struct_(message, inner, depth, add)
            return
        self.flush(depth, add)
        self.emit(depth, f"if {inner} is None:")
        self.emit(depth + 1, f"{add}(b'\\xff')")
        self.emit(depth, "else:")
        self.emit(depth + 1, f"{add}(b'\\x01')")
        self.struct_(message, inner, depth + 1, add)
        self.flush(depth + 1, add)

    def tags(self, tagged: list[Field], source: str, depth: int, add: str) -> None:
        if not tagged:
            self.fixed.append(("x", ""))  # a pad byte is the empty tagged section
            return
        self.flush(depth, add)
        sections = self.fresh("sections")
        self.emit(depth, f"{sections} = []")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            assert field.default is not None, f"{field.name} is tagged and so needs a default"
            value, pieces = self.fresh("value"), self.fresh("pieces")
            self.emit(depth, f"{value} = {source}.{field.name}")
            self.emit(depth, f"if {value} != {self.constant('default', field.default())}:")
            self.emit(depth + 1, f"{pieces} = []")
            self.value(field.type, value, field.nullable_in(self.version), depth + 1, f"{pieces}.append")
            self.flush(depth + 1, f"{pieces}.append")
            self.emit(depth + 1, f"{pieces} = b''.join({pieces})")
            self.emit(depth + 1, f"{sections}.append(uvarint({field.tag}) + uvarint(len({pieces})) + {pieces})")
        self.emit(depth, f"{add}(uvarint(len({sections})) + b''.join({sections}) if {sections} else b'\\0')")


def _count_of(size: str) -> str:
    """An expression for a compact length, which is one more than the size.  Nearly all take one byte: then nothing is called."""
    return f"(one_byte[{size} + 1] if {size} < 127 else uvarint({size} + 1))"
