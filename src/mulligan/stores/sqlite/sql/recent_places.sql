-- ?1 the first slot to look at
-- gives each (queue, region) of which something was counted since
SELECT DISTINCT queue, region FROM recent WHERE slot >= ?
