-- ?1 name, ?2 settings as JSON
INSERT INTO queue (name, settings) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings
WHERE settings IS NOT excluded.settings
