-- ?1 queue, ?2 region, ?3 name, ?4 value, ?5 start of the slot
INSERT INTO recent (queue, region, name, slot, value) VALUES (?1, ?2, ?3, ?5, ?4)
ON CONFLICT (queue, region, name, slot) DO UPDATE SET value = value + excluded.value
