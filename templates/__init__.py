"""Templates of guides and reports."""
