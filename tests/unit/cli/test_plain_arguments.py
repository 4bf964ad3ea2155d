"""What is read without Typer's adapters is read as they read it, and what they refuse is left to them."""

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.core
import typer.main

from headrace.cli.plain_arguments import NOT_PLAIN, plain_value


def parameter(annotation: Any, **options: Any) -> Any:
    app = typer.Typer()

    @app.command()
    def command(value: Annotated[annotation, typer.Option("--value", **options)] = None) -> None: ...

    (found,) = (each for each in typer.main.get_command(app).params if each.name == "value")
    return found


def by_typer(option: Any, value: Any) -> Any:
    from typer._coercion import build_runtime_param

    context: Any = None
    return build_runtime_param(option.type_descriptor).coerce(value, param=option, ctx=context)


@pytest.mark.parametrize(
    ("annotation", "options", "value"),
    [
        (str | None, {}, None),
        (str | None, {}, "text"),
        (str | None, {}, ""),
        (list[str] | None, {}, None),
        (list[str] | None, {}, ("a=1", "b=2")),
        (int | None, {}, "12"),
        (int | None, {}, "-3"),
        (int | None, {}, 7),
        (int | None, {"min": 1, "max": 5}, "5"),
        (Path | None, {}, "nowhere/at all"),
        (Path | None, {}, "."),
        (Path | None, {"exists": True}, "/"),
        (list[Path] | None, {}, ("a", "b")),
    ],
)
def test_a_plain_value_is_what_typer_makes_of_it(annotation: Any, options: dict[str, Any], value: Any) -> None:
    option = parameter(annotation, **options)

    plain = plain_value(option, value)

    assert plain is not NOT_PLAIN
    assert plain == by_typer(option, value)
    assert type(plain) is type(by_typer(option, value))


@pytest.mark.parametrize(
    ("annotation", "options", "value"),
    [
        (int | None, {}, "twelve"),
        (int | None, {}, "1_000"),
        (int | None, {"min": 1}, "0"),
        (int | None, {"max": 5}, "6"),
        (Path | None, {"exists": True}, "nowhere"),
        (Path | None, {"file_okay": False}, __file__),
        (Path | None, {"dir_okay": False}, "/"),
        (Path | None, {"resolve_path": True}, "."),
        (str | None, {"parser": str.upper}, "a"),
        (float | None, {}, "1.5"),
        (list[int] | None, {}, ("1", "x")),
    ],
)
def test_what_is_wrong_or_not_plain_is_left_to_typer(annotation: Any, options: dict[str, Any], value: Any) -> None:
    assert plain_value(parameter(annotation, **options), value) is NOT_PLAIN
