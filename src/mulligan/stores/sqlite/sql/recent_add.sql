-- ?1 queue, ?2 region, ?3 name, ?4 start of the slot, ?5 value
INSERT INTO recent (queue, region, name, slot, value) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, region, name, slot) DO UPDATE SET value = value + excluded.value
