"""What security costs, decision by decision and sign-in by sign-in."""
