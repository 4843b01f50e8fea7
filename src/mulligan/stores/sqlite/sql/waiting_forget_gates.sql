-- ?1 worker
DELETE FROM waiting_gate WHERE worker = ?
