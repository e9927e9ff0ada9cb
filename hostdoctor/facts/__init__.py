"""What the host is, as frozen typed values; what could not be learnt is an `Unknown` with its reason."""
