"""What a record's key and value are, for type checkers: `Consumer("t", values=str)` is one of `Record[Any, str]`.

A format that says nothing of it ("json", or none) leaves it at Any.  Defaults of type variables are newer than the oldest
Python here, so only checkers see them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
