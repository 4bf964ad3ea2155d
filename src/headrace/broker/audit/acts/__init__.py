"""Which requests are administrative acts, and what of them is recorded: one file per kind of thing that they are about."""
