"""What was done, and by whom: events in an open schema, without secrets, and never a flood."""
