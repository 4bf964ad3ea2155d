"""`python -m headrace` is the command `headrace`."""

from headrace.cli.main import main

main()
