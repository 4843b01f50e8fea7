"""Runs a fleet of processes as a file says."""
