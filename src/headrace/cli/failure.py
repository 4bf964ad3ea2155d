"""What a person is told when a command cannot do its work."""


class Failure(Exception):
    """One sentence that says what went wrong and, where there is one, what to do next.  The command ends with exit code 1."""
