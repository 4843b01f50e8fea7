-- ?1 place
UPDATE job SET held = 1 WHERE place = ?1
