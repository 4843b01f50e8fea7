"""Deterministic simulation: the real engine and store on a virtual clock, with faults by a seed."""
