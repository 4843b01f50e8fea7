-- ?1 key, ?2 at, ?3 how many
INSERT INTO start (key, at, count) VALUES (?1, ?2, ?3)
ON CONFLICT (key, at) DO UPDATE SET count = count + excluded.count
