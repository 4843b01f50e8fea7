-- ?1 name, ?2 paused
INSERT INTO queue (name, paused) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
