-- Tokens that another program set to the last number there is.

-- name: renew
-- ?1 token
UPDATE job SET token = ? WHERE token = 9223372036854775807

-- name: renew_running
-- ?1 token
UPDATE running SET token = ? WHERE token = 9223372036854775807
