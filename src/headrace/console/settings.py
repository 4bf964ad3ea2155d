"""What a console is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.console.serving.oidc import OidcSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """`hide` are topics whose payloads nobody sees here, or parts of them: NAME, NAME* or NAME:/json/pointer."""

    read_only: bool = False
    hide: tuple[str, ...] = ()
    history: Path | None = None  # a directory; without one, what was is forgotten at the end
    oidc: OidcSettings | None = None
    sample_seconds: float = 5.0
    sessions_max: int = 1000
    session_idle_seconds: float = 3600.0
    session_seconds: float = 12 * 3600.0
