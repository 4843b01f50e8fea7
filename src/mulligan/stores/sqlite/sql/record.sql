-- What jobs record about themselves while they run.

-- name: held
-- ?1 job, ?2 token
-- gives a row if a worker holds the job under this token
SELECT 1 FROM job JOIN running ON running.number = job.number WHERE job.id = ? AND running.token = ?

-- name: add
-- ?1 job, ?2 key, ?3 token, ?4 number, ?5 at, ?6 value
-- The first of a step or line stays, and the newest progress and checkpoint.
INSERT INTO recorded (job, key, token, number, at, value) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job, key) DO UPDATE
SET token = excluded.token, number = excluded.number, at = excluded.at, value = excluded.value
WHERE key IN ('progress', 'checkpoint')
    AND (excluded.token, excluded.number) > (recorded.token, recorded.number)

-- name: trim
-- :job, how many lines to :keep
DELETE FROM recorded
WHERE job = :job AND key < (
    SELECT key FROM recorded
    WHERE job = :job AND key >= 'log:' AND key < 'log;'
    ORDER BY key DESC
    LIMIT 1 OFFSET :keep - 1
) AND key >= 'log:'

-- name: list
-- :job, and the length of the longest step or checkpoint to give (:most), or NULL
-- gives (key, token, number, at, value or NULL, its length), oldest first
SELECT
    key, token, number, at,
    CASE WHEN :most IS NULL OR length(value) <= :most
              OR NOT (key = 'checkpoint' OR key GLOB 'step:*')
         THEN value END,
    length(value)
FROM recorded
WHERE job = :job
ORDER BY token, number, key

-- name: drop
-- ?1 job
DELETE FROM recorded WHERE job = ? AND NOT (key >= 'log:' AND key < 'log;')

-- name: delete
-- ?1 jobs, a JSON array
DELETE FROM recorded WHERE job IN (SELECT value FROM json_each(?))
