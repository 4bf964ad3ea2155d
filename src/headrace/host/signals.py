"""The signals that ask a process to end."""

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """Ctrl-C, a polite kill, and a terminal that is closed; not the last where somebody chose to outlive it (`nohup`)."""
    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return tuple(number for number in asking if signal.getsignal(number) is not signal.SIG_IGN)
