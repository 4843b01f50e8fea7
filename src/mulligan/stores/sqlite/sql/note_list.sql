-- ?1 key to begin at, ?2 now
-- gives (key, value) of the notes from there on, in order of key
SELECT key, value FROM note WHERE key >= ? AND until > ? ORDER BY key
