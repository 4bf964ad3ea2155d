"""Figures of the gateway."""
