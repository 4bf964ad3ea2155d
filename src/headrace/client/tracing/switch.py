"""Whether a client traces what it does, and with whose tracer.

Always: nothing of OpenTelemetry is imported before a client is asked to trace.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.client.errors import InvalidArgument

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from headrace.client.tracing.spans import Spans

    # Off, on with the process's own provider, or on with this one; None for what the environment says.
    Tracing: TypeAlias = bool | TracerProvider | None
else:
    Tracing = Any

VARIABLE = "HEADRACE_TRACING"
WORDS = {"": False, "off": False, "0": False, "false": False, "on": True, "1": True, "true": True}


def spans_for(given: Tracing, *, bootstrap: str, client_id: str, group: str | None = None) -> Spans | None:
    """Who makes the spans of one client; None where it does not trace."""
    name, wanted = ("tracing", given) if given is not None else (VARIABLE, _from_environment())
    if wanted is False:
        return None
    try:
        from headrace.client.tracing.spans import Spans, is_provider
    except ImportError:
        raise InvalidArgument(f"{name} needs OpenTelemetry; install it: pip install 'headrace[otel]'") from None
    if wanted is not True and not is_provider(wanted):
        raise InvalidArgument(f"tracing={given!r} is not accepted; accepted: True, False, or a TracerProvider of OpenTelemetry")
    return Spans(None if wanted is True else wanted, bootstrap=bootstrap, client_id=client_id, group=group)


def _from_environment() -> bool:
    given = os.environ.get(VARIABLE, "")
    try:
        return WORDS[given.lower()]
    except KeyError:
        raise InvalidArgument(f"{VARIABLE}={given!r} is not accepted; accepted: on, off") from None
