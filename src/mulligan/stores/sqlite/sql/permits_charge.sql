-- ?1 key, ?2 job
INSERT INTO permit (key, job) VALUES (?1, ?2) ON CONFLICT DO NOTHING
