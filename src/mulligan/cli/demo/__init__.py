"""The demo: three real workers, a bad network, a killed process, and nothing lost."""
