-- ?1 place
UPDATE job SET status = 'pending', committed = token, worker = NULL, held = 0 WHERE place = ?1
