-- ?1 place, ?2 ended_at
INSERT INTO ended (place, queue, status, ended_at, token)
SELECT place, queue, 'failed', ?2, token FROM job WHERE place = ?1
