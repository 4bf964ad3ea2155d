"""`python -m headrace.cli`: the command line without its installed script."""

from headrace.cli.main import main

if __name__ == "__main__":
    main()
