-- ?1 key, ?2 value, ?3 until
INSERT INTO note (key, value, until) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until
