-- ?1 the first slot to look at
-- gives (queue, region, name, sum)
SELECT queue, region, name, sum(value) FROM recent WHERE slot >= ? GROUP BY queue, region, name
