-- ?1 worker
-- gives a row if it was rung since its last claim
SELECT 1 FROM waiting WHERE worker = ? AND rung = 1
