-- ?1 queue, ?2 region, ?3 name, ?4 value
INSERT INTO tally (queue, region, name, value) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, region, name) DO UPDATE SET value = value + excluded.value
