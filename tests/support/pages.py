"""The pages of the documentation, and the blocks of code on them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    language: str
    code: str

    @property
    def where(self) -> str:
        return f"{self.page}, line {self.line}"

    @property
    def is_for_spark(self) -> bool:
        """Whether it needs a Spark session: those run in tests/spark."""
        return self.page == "docs/pipelines.md" or (self.language == "python" and "spark." in self.code)


def all_pages() -> list[Path]:
    """Those of the site, in the order of its navigation, and those that people see without it."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = [DOCS / name for name in re.findall(r"(\S+\.md)\s*$", navigation, re.MULTILINE)]
    decisions = sorted((DOCS / "decisions").glob("0*.md"))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *listed, *decisions]


def blocks(page: Path) -> list[Block]:
    text, name = page.read_text(), str(page.relative_to(ROOT))
    return [
        Block(name, text[: found.start()].count("\n") + 1, found.group(1).strip(), found.group(2))
        for found in FENCED.finditer(text)
    ]
