-- ?1 how many it still awaits, ?2 id
UPDATE job SET awaits = ? WHERE id = ?
