-- ?1 token
UPDATE job SET token = ? WHERE token = 9223372036854775807
