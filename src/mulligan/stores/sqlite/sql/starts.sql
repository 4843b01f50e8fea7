-- ?1 key, ?2 since
-- gives (when, how many) of starts after that, in order
SELECT at, count FROM start WHERE key = ? AND at > ? ORDER BY at
