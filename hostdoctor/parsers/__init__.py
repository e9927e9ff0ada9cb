"""Pure, total readers of one format each: text or bytes in, facts out, never an exception for bad input."""
