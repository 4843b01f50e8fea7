-- ?1 place
DELETE FROM ended WHERE place = ?
