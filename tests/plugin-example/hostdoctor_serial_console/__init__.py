"""An example of a package that adds a check to hostdoctor."""
