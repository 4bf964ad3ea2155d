"""Which settings a test changes, found by reading it: what it hands over by a setting's name, with a value that is no default."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from headrace.model.settings import Setting, SettingError

TESTS = Path(__file__).parents[1]


def names_of_tests(path: str) -> set[str]:
    """The names of a file's tests."""
    return {name for name in _definitions(path) if name.startswith("test_")}


def sets(path: str, test: str, setting: Setting, field: str) -> bool:
    """Whether a test, with what it uses of its file, gives a setting (or the broker's default for it) another value.

    `field` is what the setting is called where a part of the broker is made without the rest of it.
    """
    names = {setting.name, *setting.synonyms}
    values = [value for node in _used_by(path, test) for value in _values(node, names, field)]
    return any(_is_another(value, setting) for value in values)


def _used_by(path: str, name: str) -> list[ast.AST]:
    """A function and, of its file, all that it uses and that those use."""
    defined = _definitions(path)
    seen: dict[str, list[ast.AST]] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in seen or each not in defined:
            continue
        seen[each] = defined[each]
        for node in defined[each]:
            waiting += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
            # Fixtures are used by naming them as arguments.
            waiting += [part.arg for part in ast.walk(node) if isinstance(part, ast.arg)]
    return [node for nodes in seen.values() for node in nodes]


@cache
def _definitions(path: str) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    for node in ast.parse((TESTS / path).read_text()).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.setdefault(node.name, []).append(node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.setdefault(name, []).append(node)
    return found


def _values(node: ast.AST, names: set[str], field: str) -> Iterator[ast.expr]:
    """What is given to the setting: in a dictionary, as a keyword, or beside its name in a call or a tuple."""
    for part in ast.walk(node):
        match part:
            case ast.Dict(keys=keys, values=values):
                yield from (value for key, value in zip(keys, values, strict=True) if _is(key, names))
            case ast.keyword(arg=str(arg), value=value) if arg == field:
                yield value
            case ast.Call(args=[], keywords=[ast.keyword(arg="name", value=key), ast.keyword(arg="value", value=value)]):
                yield from [value] if _is(key, names) else []
            case ast.Call(args=items) | ast.Tuple(elts=items):
                yield from (after for before, after in pairwise(items) if _is(before, names))


def _is(key: ast.expr | None, names: set[str]) -> bool:
    return isinstance(key, ast.Constant) and key.value in names


def _is_another(value: ast.expr, setting: Setting) -> bool:
    try:
        given = ast.literal_eval(value)
    except ValueError:
        return True  # worked out, or one of several that the test goes through
    if given is None:
        return False
    text = given if isinstance(given, str) else setting.format(given if not isinstance(given, list | set) else tuple(given))
    try:
        return setting.read(str(text)) != setting.default
    except SettingError:
        return True  # refused, which is an effect, too
