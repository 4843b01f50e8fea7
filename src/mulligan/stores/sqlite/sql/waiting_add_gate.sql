-- ?1 gate's key, ?2 worker
INSERT INTO waiting_gate (key, worker) VALUES (?, ?)
