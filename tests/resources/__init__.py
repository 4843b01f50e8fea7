"""What processes take from their machine: memory, open files and time, over a long run."""
