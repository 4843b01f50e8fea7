-- ?1 place
-- gives the job at which it arrives
SELECT gather FROM job WHERE place = ?
