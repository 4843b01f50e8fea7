-- ?1 key
-- gives how many permits of it are held
SELECT count(*) FROM permit WHERE key = ?
