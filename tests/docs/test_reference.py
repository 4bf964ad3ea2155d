"""The reference and the classes say the same: what is public is in it, and nothing is hidden by it."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import headrace

PAGE = Path(__file__).parents[2] / "docs/guides/reference.md"
BLOCK = re.compile(r"^::: (?P<path>\S+)\n(?P<options>(?: .*\n|\n(?= ))*)", re.MULTILINE)
CLASSES = [name for name in headrace.__all__ if inspect.isclass(getattr(headrace, name))]


def blocks() -> Iterator[tuple[Any, str]]:
    """What the page shows, each as an object and the options that it is shown with."""
    for found in BLOCK.finditer(PAGE.read_text() + "\n"):
        yield resolved(found["path"]), found["options"]


def resolved(path: str) -> Any:
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


def shown(shape: type) -> list[str]:
    """The options with which the page shows a class, by itself or with its module."""
    return [
        options
        for subject, options in blocks()
        if subject is shape
        or (inspect.ismodule(subject) and subject.__name__ == shape.__module__ and not is_left_out(shape.__name__, options))
    ]


def is_left_out(name: str, options: str) -> bool:
    members = re.search(r"members: \[(.*)\]", options)
    if members is not None:
        return name not in members[1].replace(" ", "").split(",")
    filters = re.findall(r"'!(.*?)'", options)
    return any(re.search(pattern, name) for pattern in filters)


def public_names(shape: type) -> list[str]:
    """What a class of ours defines itself, or has from another of ours."""
    ours = [each for each in shape.__mro__ if each.__module__.startswith("headrace")]
    return sorted({name for each in ours for name in vars(each) if not name.startswith("_")})


@pytest.mark.parametrize("name", CLASSES)
def test_every_exported_class_is_in_the_reference_with_all_that_is_public(name: str) -> None:
    shape = getattr(headrace, name)
    options = shown(shape)

    assert len(options) == 1, f"{name} is in the reference {len(options)} times"
    assert [each for each in public_names(shape) if is_left_out(each, options[0]) and "members:" not in options[0]] == []


@pytest.mark.parametrize("name", CLASSES)
def test_everything_public_of_an_exported_class_is_explained(name: str) -> None:
    shape = getattr(headrace, name)
    methods = [each for each in public_names(shape) if inspect.isfunction(inspect.getattr_static(shape, each))]

    assert [each for each in methods if not (getattr(shape, each).__doc__ or "").strip()] == []


def test_the_asyncio_forms_offer_what_the_others_do() -> None:
    assert set(public_names(headrace.Admin)) == set(public_names(headrace.AsyncAdmin))
    assert set(public_names(headrace.AsyncConsumer)) <= set(public_names(headrace.Consumer))
