"""The built-in checks: one file a subject, each with a `CHECK`; the files are found by their being here."""
