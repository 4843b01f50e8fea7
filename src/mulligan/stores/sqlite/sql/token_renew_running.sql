-- ?1 token
UPDATE running SET token = ?1 WHERE token = 9223372036854775807
