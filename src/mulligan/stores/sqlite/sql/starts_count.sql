-- ?1 key, ?2 at, ?3 how many
INSERT INTO start (key, at, count) VALUES (?, ?, ?)
ON CONFLICT (key, at) DO UPDATE SET count = count + excluded.count
