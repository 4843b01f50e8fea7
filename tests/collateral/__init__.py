"""A job that kills its process must not take its neighbours along."""
