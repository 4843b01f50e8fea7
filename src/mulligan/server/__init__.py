"""The server: the job API, workers in any language, and the dashboard, over any store.

Nothing here is imported before `mulligan serve` needs it, since it imports a web server.
"""
