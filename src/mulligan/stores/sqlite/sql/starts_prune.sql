-- ?1 key, ?2 until
DELETE FROM start WHERE key = ?1 AND at <= ?2
