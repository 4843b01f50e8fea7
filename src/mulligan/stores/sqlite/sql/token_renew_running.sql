-- ?1 token
UPDATE running SET token = ? WHERE token = 9223372036854775807
