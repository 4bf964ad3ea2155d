"""Fetches under way: the table of their states, what is read for whom, and who wakes them."""
