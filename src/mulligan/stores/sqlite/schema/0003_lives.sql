-- A job's tokens begin above all that an earlier job of its id can have had: at place * 4096.
-- Jobs that run keep theirs, which their workers hold; the others go on from where they are due.

UPDATE job SET token = place * 4096 + token WHERE status = 'pending' OR status = 'failed';

-- What has not started is no longer known by its token.
DROP INDEX job_expires;
CREATE INDEX job_expires ON job (expires_at)
    WHERE status = 'pending' AND retry_count = 0 AND snoozes = 0 AND replay = 0
        AND expires_at IS NOT NULL;
