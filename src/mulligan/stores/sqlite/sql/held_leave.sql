-- ?1 place
DELETE FROM held WHERE place = ?
