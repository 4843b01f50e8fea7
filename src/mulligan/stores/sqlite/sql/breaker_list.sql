-- gives (queue, region, open, since, probes)
SELECT queue, region, open, since, probes FROM breaker
