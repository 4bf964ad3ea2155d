"""How much the SDK costs, beside the bare client it stands on."""
