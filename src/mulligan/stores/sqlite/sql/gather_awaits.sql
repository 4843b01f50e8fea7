-- ?1 id
-- gives how many it still awaits; no row if it awaits none
SELECT awaits FROM job WHERE id = ?1 AND status = 'pending' AND held = 2
