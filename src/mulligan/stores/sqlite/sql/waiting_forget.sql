-- ?1 worker
DELETE FROM waiting WHERE worker = ?
