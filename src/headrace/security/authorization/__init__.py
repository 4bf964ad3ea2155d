"""What somebody may do: rules, decisions, and the table of what each API checks."""
