"""Measuring copies between the GPUs and the memory of this host, in steps that may each fail alone."""
