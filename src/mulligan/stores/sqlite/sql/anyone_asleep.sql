-- gives 1 if any worker sleeps
SELECT EXISTS (SELECT 1 FROM waiting WHERE asleep = 1)
