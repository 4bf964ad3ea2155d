"""What a person is told when a command cannot do its work."""


class Failure(Exception):
    """One sentence that says what went wrong and, where there is one, what to do next.  The command ends with exit code 1."""


def sentence_of(error: Exception) -> str:
    """Our own errors are sentences already; of others, say what they are and how to see more."""
    from headrace.client.errors import BrokerError, HeadraceError
    from headrace.model.errors import RequestError, StorageError
    from headrace.model.settings import SettingError

    if isinstance(error, BrokerError) and error.name not in str(error):
        # The protocol's own name is what one looks for elsewhere.
        return f"{_ended(str(error))} ({error.name.lstrip('_')})"
    if isinstance(error, HeadraceError):
        return _ended(str(error))
    if isinstance(error, RequestError | StorageError | SettingError):
        return str(error)
    return f"{type(error).__name__}: {error} (set HEADRACE_DEBUG=1 to see where)"


def with_advice(sentence: str) -> str:
    """Who may not do something is told whom to ask, unless that is said already."""
    if "_AUTHORIZATION_FAILED" not in sentence or "headrace acl" in sentence:
        return sentence
    return f"{sentence} Whoever makes the rules allows it with `headrace acl allow`."


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
