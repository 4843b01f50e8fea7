"""Real workers on a real store, killed, paused and cut off while they work."""
