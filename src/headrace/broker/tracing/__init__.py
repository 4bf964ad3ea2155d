"""Requests that somebody follows: their lines in the log, and spans of a sample of them."""
