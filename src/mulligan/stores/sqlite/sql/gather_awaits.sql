-- ?1 id
-- gives how many it still awaits; no row if it awaits none
SELECT job.awaits
FROM job
CROSS JOIN held ON held.place = job.place AND held.why = 'arrivals'
WHERE job.id = ?
