-- ?1 token
UPDATE job SET token = ?1 WHERE token = 9223372036854775807
