"""What ties mulligan to other libraries; each module needs its own extra."""
