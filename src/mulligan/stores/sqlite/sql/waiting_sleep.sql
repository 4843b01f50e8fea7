-- ?1 worker, ?2 until, ?3 address of its bell, ?4 mark of its plan
INSERT INTO waiting (worker, asleep, rung, until, address, plan) VALUES (?, 1, 0, ?, ?, ?)
ON CONFLICT (worker) DO UPDATE
SET asleep = 1, rung = 0, until = excluded.until, address = excluded.address, plan = excluded.plan
