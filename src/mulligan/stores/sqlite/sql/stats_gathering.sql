-- gives (queue, how many) of jobs that await others
SELECT queue, count(*) FROM held WHERE why = 'arrivals' GROUP BY queue
