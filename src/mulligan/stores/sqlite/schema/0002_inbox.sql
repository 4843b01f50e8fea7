-- What the inbox of producers in other languages keeps: jobs that it could not accept, and a place
-- where one is put together. The inbox itself is inbox.sql.

CREATE TABLE refused (
    place INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    reason TEXT NOT NULL,
    task, args, kwargs, queue, region, delay, priority, id, unique_key, retry
);

-- Where a foreign job is put together; empty outside the trigger.
CREATE TABLE arriving (
    now REAL, reason TEXT, sequence INTEGER, body TEXT, due REAL, lane_priority INTEGER,
    id TEXT, queue TEXT, region TEXT
);
