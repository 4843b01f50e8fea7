"""A module that takes its process down with it."""

import os

os._exit(7)
