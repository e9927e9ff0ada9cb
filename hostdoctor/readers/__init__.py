"""From evidence to facts, one subject a module: each knows which files to read and which parser takes them."""
