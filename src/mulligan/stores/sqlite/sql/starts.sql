-- ?1 key, ?2 since
-- gives (when, how many) of starts after that, in order
SELECT at, count FROM start WHERE key = ?1 AND at > ?2 ORDER BY at
