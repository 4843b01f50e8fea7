-- ?1 the first slot to keep
DELETE FROM recent WHERE slot < ?
