"""What a person is told when a pipeline fails: the cause, the line of their own code, and where the log is, in one sentence.

Spark's errors are pages of stacks, Java's around Python's.  They are also lazy: their text is asked of Java when it is read, so
it has to be read before Spark is stopped.
"""

import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.client.errors import HeadraceError
from headrace.spark.errors import PipelineError

OURS = re.compile(r"^(?:\S+: )?headrace\.(?:spark|client)\.errors\.\w+: (?P<text>.+)$")
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
# The last line of a Python stack: the only one that is not indented.
RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
STACK_BEGINS = "Traceback (most recent call last):"
SPARKS_OWN = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: |^\[[A-Z0-9_.]+\] | SQLSTATE: \w+[.;]?$")
NO_TEXT = "Spark gave no reason"


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code in somebody's stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, in {self.function}"


def failed(error: BaseException, user_code: Path, log: Path | None) -> PipelineError:
    """The error to raise instead.  To be called while Spark still runs."""
    text = str(error) or type(error).__name__
    if isinstance(error, HeadraceError):
        cause = text
    else:
        code_lines = [CodeLine(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(error.__traceback__)]
        captured = type(error).__module__.startswith(("pyspark.", "py4j."))
        cause = explained(text if captured else f"{type(error).__name__}: {text}", user_code, code_lines)
    return PipelineError(with_log(cause, log))


def with_log(cause: str, log: Path | None) -> str:
    return cause if log is None else f"{cause.rstrip('.')}; what Spark said is in {log}"


def explained(text: str, user_code: Path, code_lines: Iterable[CodeLine] = ()) -> str:
    """The cause that a text of Spark's tells, and the line of the user's code that led there.

    `code_lines` are those of the driver's stack, for an error that came while `transform` was called.
    """
    lines = text.splitlines()
    ours = [found.group("text").strip() for line in lines if (found := OURS.match(line.strip()))]
    if ours:
        return ours[-1]
    stack = _python_stack(lines)
    within = [CodeLine(found["file"], int(found["line"]), found["function"]) for line in stack if (found := FRAME.match(line))]
    cause = _raised(stack) or _first_sentence(lines)
    code_line = _in_user_code(within, user_code) or _in_user_code(code_lines, user_code)
    return f"{cause.rstrip('.')} ({code_line})" if code_line is not None else cause


def _python_stack(lines: list[str]) -> list[str]:
    """The last Python stack of a text; where one error led to another, that is the one that ended it."""
    begins = [number for number, line in enumerate(lines) if line.rstrip().endswith(STACK_BEGINS)]
    if not begins:
        return []
    stack = []
    for line in lines[begins[-1] + 1 :]:
        stack.append(line)
        if line.strip() and not line[:1].isspace():
            break
    return stack


def _raised(stack: list[str]) -> str | None:
    found = RAISED.match(stack[-1].strip()) if stack else None
    if found is None:
        return None
    name, text = found["name"].rpartition(".")[2], found["text"]
    return f"{name}: {text}" if text else name


def _first_sentence(lines: list[str]) -> str:
    first = next((line.strip() for line in lines if line.strip()), NO_TEXT)
    while (shorter := SPARKS_OWN.sub("", first).strip()) != first:
        first = shorter
    return first or NO_TEXT


def _in_user_code(code_lines: Iterable[CodeLine], user_code: Path) -> CodeLine | None:
    """The innermost line that lies in the pipeline's own file; in its folder if there is none.

    An executor on another machine has the file elsewhere, so it is known by its name.
    """
    found = [code_line for code_line in code_lines if not code_line.file.startswith("<")]
    own = [code_line for code_line in found if Path(code_line.file).name == user_code.name]
    beside = [code_line for code_line in found if Path(code_line.file).parent == user_code.parent]
    candidates = own or beside
    return candidates[-1] if candidates else None
