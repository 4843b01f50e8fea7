"""A process killed at every step that it takes, on every store, and what is left put right.

Nothing of this is in the product: the steps are seen from outside, where the code reaches its
driver. `taps` has those places, `points` their names, `plays` what is under way when the process
dies, and `running` kills one process and lets a clean one finish.
"""
