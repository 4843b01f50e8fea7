-- Tokens begin anew, and higher, with each life of an id (see first_token): they need more room.
-- And `expires` holds until a job has used an attempt, also after a drain has returned it.
DROP INDEX job_expires;
ALTER TABLE job
    ALTER COLUMN token DROP DEFAULT,
    ALTER COLUMN token TYPE bigint,
    ALTER COLUMN committed TYPE bigint;
ALTER TABLE ended
    ALTER COLUMN token TYPE bigint,
    ALTER COLUMN committed TYPE bigint;
CREATE INDEX job_expires ON job (expires_at)
    WHERE status = 'pending' AND expires_at IS NOT NULL
      AND retry_count = 0 AND snoozes = 0 AND replay = 0;
