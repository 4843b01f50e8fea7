-- gives the epoch
SELECT value FROM meta WHERE name = 'epoch'
