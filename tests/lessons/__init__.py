"""What went wrong elsewhere, and must not here: docs/lessons.md lists each with its test."""
