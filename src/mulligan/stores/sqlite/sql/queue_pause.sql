-- ?1 name, ?2 paused
INSERT INTO queue (name, paused) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
