-- ?1 job
-- gives the keys of its permits
SELECT key FROM permit WHERE job = ?
