"""Who there is and what they may do, as values: principals, rules, credentials."""
