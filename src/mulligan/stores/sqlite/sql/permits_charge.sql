-- ?1 key, ?2 job
INSERT INTO permit (key, job) VALUES (?, ?) ON CONFLICT DO NOTHING
