"""The source of a function that reads or writes one version of a message, while it is being written."""

from typing import Any


class FunctionSource:
    """Its lines, and the names that they may use."""

    def __init__(self, version: int, flexible: bool, names: dict[str, Any]) -> None:
        self.version = version
        self.flexible = flexible
        self.names = names
        self._lines: list[str] = []
        self._serial = 0

    def emit(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)

    def fresh(self, name: str) -> str:
        """A name that nothing else in the function has."""
        self._serial += 1
        return f"{name}_{self._serial}"

    def constant(self, name: str, value: Any) -> str:
        """A name by which the function knows this value."""
        unique = self.fresh(name)
        self.names[unique] = value
        return unique

    def compiled(self, function: str) -> Any:
        """The function of that name."""
        exec("\n".join(self._lines), self.names)
        return self.names[function]
