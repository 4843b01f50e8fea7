-- Limits that jobs name: what is stored of them, and what is used.

-- name: limits
-- gives (name, declared, set) of every limit that is stored
SELECT name, declared, set_instead FROM named_limit

-- name: store_limit
-- ?1 name, ?2 declared, ?3 set
INSERT INTO named_limit (name, declared, set_instead) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET declared = excluded.declared, set_instead = excluded.set_instead

-- name: forget_limit
-- ?1 name
DELETE FROM named_limit WHERE name = ?

-- name: used
-- gives the name of every limit of which something is used
SELECT name FROM limit_state

-- name: state
-- ?1 name
-- gives what is used of it
SELECT used, starts, full_at, paused_until FROM limit_state WHERE name = ?

-- name: put_state
-- ?1 name, ?2 used, ?3 starts, ?4 full_at, ?5 paused_until
INSERT INTO limit_state (name, used, starts, full_at, paused_until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET used = excluded.used, starts = excluded.starts, full_at = excluded.full_at,
    paused_until = excluded.paused_until

-- name: forget_state
-- ?1 name
DELETE FROM limit_state WHERE name = ?
