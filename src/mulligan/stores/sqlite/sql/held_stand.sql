-- ?1 place
UPDATE job SET held = 0 WHERE place = ?1
