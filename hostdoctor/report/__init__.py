"""Reports: one model, one renderer a format."""
