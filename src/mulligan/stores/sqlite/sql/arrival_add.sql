-- ?1 gathering job, ?2 place, ?3 result
-- changes nothing if one has arrived at that place
INSERT INTO arrival (job, place, result) VALUES (?, ?, CAST(? AS TEXT)) ON CONFLICT DO NOTHING
