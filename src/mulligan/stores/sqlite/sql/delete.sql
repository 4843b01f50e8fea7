-- ?1 place
DELETE FROM job WHERE place = ?1
