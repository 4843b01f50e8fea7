-- gives (queue, status, how many) of jobs that have ended
SELECT queue, status, count(*) FROM ended GROUP BY queue, status
