-- ?1 worker
DELETE FROM waiting_lane WHERE worker = ?
