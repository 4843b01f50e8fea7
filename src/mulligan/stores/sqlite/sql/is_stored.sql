-- ?1 id, ?2 place
-- gives a row if a job of this id was stored before that place was given
SELECT 1 FROM job WHERE id = ? AND place < ?
