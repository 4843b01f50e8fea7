-- ?1 job
DELETE FROM permit WHERE job = ?
