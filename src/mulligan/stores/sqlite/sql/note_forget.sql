-- ?1 key
DELETE FROM note WHERE key = ?
