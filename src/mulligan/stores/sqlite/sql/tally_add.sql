-- ?1 queue, ?2 region, ?3 name, ?4 value
INSERT INTO tally (queue, region, name, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue, region, name) DO UPDATE SET value = value + excluded.value
