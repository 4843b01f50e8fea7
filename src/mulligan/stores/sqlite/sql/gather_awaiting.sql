-- ?1 id
-- gives (place, the job that awaits it in turn); no row if it awaits none
SELECT job.place, job.gather
FROM job
CROSS JOIN held ON held.place = job.place AND held.why = 'arrivals'
WHERE job.id = ?
