-- ?1 id, ?2 now
-- gives a row if it beats
SELECT 1 FROM worker WHERE id = ? AND beat_at + lease > ?
