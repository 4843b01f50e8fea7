"""Integrations with other libraries; each module needs its own extra."""
