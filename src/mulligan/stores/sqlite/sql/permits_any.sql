-- gives 1 if any job holds a permit, or is held until one is free
SELECT EXISTS (SELECT 1 FROM permit) OR EXISTS (SELECT 1 FROM held WHERE why = 'key')
