-- gives (queue, region, open, since, probes, probed_at)
SELECT queue, region, open, since, probes, probed_at FROM breaker
