-- ?1 ended_at, ?2 place
INSERT INTO ended (place, queue, status, ended_at, token)
SELECT place, queue, 'failed', ?, token FROM job WHERE place = ?
