-- gives (queue, region, name, sum since ever)
SELECT queue, region, name, value FROM tally
