-- gives (1 if any job holds a permit or waits for one, 1 if any has a unique key)
SELECT
    EXISTS (SELECT 1 FROM permit) OR EXISTS (SELECT 1 FROM held WHERE why = 'key'),
    EXISTS (SELECT 1 FROM job WHERE key_queue IS NOT NULL)
