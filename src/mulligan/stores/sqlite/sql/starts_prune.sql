-- ?1 key, ?2 until
DELETE FROM start WHERE key = ? AND at <= ?
