"""Every version that is claimed, run: `make matrix`."""
