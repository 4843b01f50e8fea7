-- ?1 key to begin at, ?2 now
-- gives (key, value) of the notes from there on, in order of key
SELECT key, value FROM note WHERE key >= ?1 AND until > ?2 ORDER BY key
