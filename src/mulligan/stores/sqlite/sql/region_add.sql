-- ?1 name
-- changes nothing if it is known
INSERT INTO region (name) VALUES (?1) ON CONFLICT DO NOTHING
