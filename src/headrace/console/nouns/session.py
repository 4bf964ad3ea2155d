"""Signing in, signing out, and who is here."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import Annotated, Any, Final

from aiohttp import web

from headrace.client.errors import HeadraceError, SecurityFailed
from headrace.client.security.tls import protocol_of
from headrace.console.nouns.rights import cluster_rights
from headrace.console.reach import console_of
from headrace.console.serving.oidc import Provider, shown_name
from headrace.console.serving.sessions import COOKIE
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter, Reply
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import Problem, bad_request, not_found, problem_of, sentence

operations = Operations("console session")
PATH: Final = "/console/api/session"
ATTEMPT: Final = "headrace_console_attempt"


@dataclass(frozen=True, slots=True)
class SignIn:
    """A user's name with the password, or a token."""

    username: Annotated[str | None, described("Who.", maxLength=512)] = None
    password: Annotated[str | None, described("The password.", maxLength=1024)] = None
    token: Annotated[str | None, described("Instead: a token that the brokers take (OAUTHBEARER).", maxLength=12_000)] = None


@operations.get(PATH, "Who is here", needs_caller=False, listed=False)
async def show_session(call: Call) -> dict[str, Any]:
    """Answers also those who are nobody yet: the page asks this first."""
    gateway, console = call.gateway, console_of(call)
    session = console.sessions.of(call.request)
    facts: dict[str, Any] = {
        "version": version("headrace"),
        "read_only": console.settings.read_only,
        "hides": bool(console.hiding),
        "bootstrap": gateway.settings.bootstrap,
        "has_provider": console.provider is not None,
        "can_sign_in": "sasl" in protocol_of(gateway.callers.doorkeeper.properties),
        "proof": None if session is None else session.proof,
        "name": None,
        "how": None if session is None else session.how,
        "rights": [],
        "problem": None,
    }
    try:
        async with gateway.callers.of(call.request) as caller:
            facts["name"] = caller.name if session is None else session.name
            facts["how"] = facts["how"] or ("anonymous" if caller.key == "anonymous" else "certificate")
            facts["rights"] = await cluster_rights(caller.cluster)
    except (Problem, HeadraceError) as error:
        problem = problem_of(error)
        if problem.status != 401:
            facts["problem"] = problem.document()
    return facts


@operations.post(PATH, "Sign in", body=SignIn, needs_caller=False, listed=False)
async def sign_in(call: Call) -> Reply:
    gateway, console, given = call.gateway, console_of(call), call.body
    doorkeeper = gateway.callers.doorkeeper
    if given.token:
        credentials, how = doorkeeper.bearer(given.token.strip()), "token"
    elif given.username and given.password:
        credentials, how = doorkeeper.basic(given.username, given.password), "password"
    else:
        raise bad_request("A name and a password are needed, or a token.", "Fill in both.")
    try:
        async with gateway.callers.borrow(credentials):
            pass
    except SecurityFailed as error:
        raise Problem(401, "not_signed_in", sentence(error), "Try again, or ask the operator.") from None
    token, session = console.sessions.open(credentials, how, name=shown_name(given.token) if given.token else None)
    return Reply({"name": session.name, "proof": session.proof}, headers={"Set-Cookie": _cookie(call, token)})


@operations.delete(PATH, "Sign out", needs_caller=False, listed=False)
async def sign_out(call: Call) -> Reply:
    token = call.request.cookies.get(COOKIE)
    if token is not None:
        console_of(call).sessions.close(token)
    return Reply(headers={"Set-Cookie": _cookie(call, "", ended=True)})


TO: Final = Parameter("to", "The page to go to afterwards.", default="/")
CODE: Final = Parameter("code", "What the provider gave.")
STATE: Final = Parameter("state", "Which attempt it belongs to.")
REFUSED: Final = Parameter("error", "Why the provider gave nothing.")
MORE: Final = tuple(Parameter(name, "What providers add.") for name in ("error_description", "error_uri", "iss", "session_state"))


@operations.get(f"{PATH}/provider", "Sign in at the provider", query=(TO,), needs_caller=False, listed=False)
async def go_to_provider(call: Call) -> web.Response:
    address, state = await _provider(call).begin(f"{_origin(call)}{PATH}/callback", call.query["to"])
    response = web.Response(status=302, headers={"Location": address})
    # Lax, and not strict: coming back from the provider is a way from another site.
    response.headers["Set-Cookie"] = f"{ATTEMPT}={state}; Path={PATH}; HttpOnly; SameSite=Lax{_secure(call)}"
    return response


@operations.get(
    f"{PATH}/callback", "Come back from the provider", query=(CODE, STATE, REFUSED, *MORE), needs_caller=False, listed=False
)
async def come_back(call: Call) -> web.Response:
    """The page that follows is asked for by a page of ours: a strict cookie does not travel on the way from another site."""
    query, gateway, console = call.query, call.gateway, console_of(call)
    if query["code"] is None or query["state"] is None:
        raise Problem(401, "not_signed_in", "The provider did not let you in.", "Try again at /console/.")
    kept = call.request.cookies.get(ATTEMPT, "")
    token, seconds, to = await _provider(call).finish(query["code"], query["state"], kept)
    credentials = gateway.callers.doorkeeper.bearer(token)
    try:
        async with gateway.callers.borrow(credentials):
            pass
    except SecurityFailed as error:
        raise Problem(401, "not_signed_in", f"The provider's token: {error}.", "Tell the operator.") from None
    opened, _ = console.sessions.open(credentials, "provider", seconds, shown_name(token))
    path = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
    page = (
        f'<!doctype html><meta http-equiv="refresh" content="0;url=/console{escape(path, quote=True)}"><title>Signed in</title>'
    )
    return web.Response(text=page, content_type="text/html", headers={"Set-Cookie": _cookie(call, opened)})


def _provider(call: Call) -> Provider:
    found = console_of(call).provider
    if found is None:
        raise not_found("no_provider", "This console knows no provider to sign in at.", "Start it with --oidc-issuer.")
    return found


def _is_secure(call: Call) -> bool:
    return call.request.secure or call.request.headers.get("X-Forwarded-Proto") == "https"


def _secure(call: Call) -> str:
    return "; Secure" if _is_secure(call) else ""


def _origin(call: Call) -> str:
    return f"{'https' if _is_secure(call) else 'http'}://{call.request.host}"


def _cookie(call: Call, token: str, *, ended: bool = False) -> str:
    """Out of reach of scripts, and never sent for another site's pages.  Its path is /: the page asks the gateway, too."""
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{_secure(call)}{'; Max-Age=0' if ended else ''}"
