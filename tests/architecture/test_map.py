"""ARCHITECTURE.md, its picture, the import rules and the tree say the same."""

import re
import runpy
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from tests.architecture.test_import_direction import MAY_IMPORT, NODE
from tests.support.source_tree import SOURCE

ROOT = SOURCE.parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
# Packages whose rooms the page describes; those of the others are few, and their names say it.
DIVIDED = ("broker", "log", "client", "spark", "gateway", "console", "cli")


def rows(heading: str) -> Iterator[list[str]]:
    """The rows of the table below a heading, each as its cells."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith(("| package", "| room", "|---")):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def packages() -> set[str]:
    ours = {path.name for path in (SOURCE / "headrace").iterdir() if (path / "__init__.py").exists()}
    return ours | {path.name for path in SOURCE.iterdir() if path.name != "headrace" and (path / "__init__.py").exists()}


def rooms(package: str) -> set[str]:
    """The folders of a package that hold modules."""
    folder = SOURCE / "headrace" / package
    return {f"{package}/{path.name}" for path in folder.iterdir() if (path / "__init__.py").exists()}


def rooms_described() -> set[str]:
    """`log/segments`, `indexes`: what has no package of its own is in that of the first."""
    found = set()
    for names, *_ in rows("The rooms"):
        package = ""
        for name in quoted(names):
            package = name.rsplit("/", 1)[0] if "/" in name else package
            found.add(name if "/" in name else f"{package}/{name}")
    return found


def test_the_map_allows_each_package_what_the_import_rules_allow_it() -> None:
    described = {quoted(name)[0]: allowed for name, _, allowed in rows("The map") if quoted(name)}
    wanted = {name: set(allowed) for name, allowed in MAY_IMPORT.items() if name != "pyspark_headrace"}

    said = {}
    for name, allowed in described.items():
        said[name] = {
            "everything above": NODE,
            "anything": wanted["testing"],
        }.get(allowed, set(quoted(allowed)))

    assert said == wanted


def test_every_package_has_a_place_in_the_import_rules() -> None:
    assert packages() == set(MAY_IMPORT)


def test_the_rooms_described_are_those_of_the_tree() -> None:
    described = rooms_described()

    gone = sorted(name for name in described if not (SOURCE / "headrace" / name).is_dir())
    missing = sorted(set().union(*(rooms(package) for package in DIVIDED)) - described)

    assert not gone, "ARCHITECTURE.md describes rooms that do not exist"
    assert not missing, "ARCHITECTURE.md, table of rooms, lacks these"


def test_the_picture_shows_every_package_and_every_room_of_the_broker() -> None:
    shown = {room.folder for room in runpy.run_path(str(ROOT / "docs/generate_picture.py"))["ROOMS"]}

    assert shown == (packages() - {"broker"}) | rooms("broker"), "change docs/generate_picture.py, then run `make references`"


def test_no_room_of_the_picture_covers_another_and_those_of_the_broker_are_within_it() -> None:
    drawing = runpy.run_path(str(ROOT / "docs/generate_picture.py"))
    left, top, width, height = drawing["BROKER"]
    covered = [
        (one.folder, other.folder)
        for one, other in combinations(drawing["ROOMS"], 2)
        if one.x < other.x + other.width and other.x < one.x + one.width
        if one.y < other.y + other.height and other.y < one.y + one.height
    ]
    within = {
        room.folder
        for room in drawing["ROOMS"]
        if left < room.x and room.x + room.width < left + width and top < room.y and room.y + room.height < top + height
    }

    assert not covered
    assert within == rooms("broker")


def test_the_page_shows_the_picture() -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", PAGE)

    assert (Path(ROOT) / picture).exists()
