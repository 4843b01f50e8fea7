-- gives (name, settings as JSON or NULL, paused)
SELECT name, CAST(settings AS BLOB), paused FROM queue
