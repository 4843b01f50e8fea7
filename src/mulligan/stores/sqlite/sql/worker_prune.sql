-- ?1 stopped beating before
-- A worker that holds jobs is kept until they are reclaimed.
DELETE FROM worker
WHERE beat_at < ? AND NOT EXISTS (SELECT 1 FROM running WHERE running.worker = worker.id)
