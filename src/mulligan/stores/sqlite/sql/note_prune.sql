-- ?1 now
DELETE FROM note WHERE until <= ?
