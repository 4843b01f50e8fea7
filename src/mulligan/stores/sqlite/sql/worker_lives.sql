-- ?1 id, ?2 now
-- gives a row if it beats
SELECT 1 FROM worker WHERE id = ?1 AND beat_at + lease > ?2
