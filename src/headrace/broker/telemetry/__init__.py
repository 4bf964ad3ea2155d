"""Clients' own metrics (KIP-714): what they are asked for, and what they tell."""
