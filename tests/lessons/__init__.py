"""What went wrong elsewhere, and must not here: docs/proof/lessons.md lists each with its test."""
