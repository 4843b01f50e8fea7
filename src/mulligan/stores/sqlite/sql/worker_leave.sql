-- ?1 id
DELETE FROM worker WHERE id = ?
