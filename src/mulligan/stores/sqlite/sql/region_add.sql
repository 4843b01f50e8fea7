-- ?1 name
-- changes nothing if it is known
INSERT INTO region (name) VALUES (?) ON CONFLICT DO NOTHING
