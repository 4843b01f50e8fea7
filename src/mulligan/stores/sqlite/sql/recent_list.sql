-- ?1 the first slot to look at
-- gives (queue, region, name, sum)
SELECT queue, region, name, sum(value) FROM recent WHERE slot >= ?1 GROUP BY queue, region, name
