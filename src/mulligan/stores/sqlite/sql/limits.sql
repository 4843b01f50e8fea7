-- Permits and starts of the limits of plans, and what running jobs hold of others.

-- name: any_permits
-- gives 1 if any job holds a permit
SELECT EXISTS (SELECT 1 FROM permit)

-- name: permits_of
-- ?1 job
-- gives the keys of its permits
SELECT key FROM permit WHERE job = ?

-- name: free
-- ?1 job
DELETE FROM permit WHERE job = ?

-- name: used
-- ?1 key
-- gives how many permits of it are held
SELECT count(*) FROM permit WHERE key = ?

-- name: charge
-- ?1 key, ?2 job
INSERT INTO permit (key, job) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: starts
-- ?1 key, ?2 since
-- gives (when, how many) of starts after that, in order
SELECT at, count FROM start WHERE key = ? AND at > ? ORDER BY at

-- name: count_start
-- ?1 key, ?2 at, ?3 how many
INSERT INTO start (key, at, count) VALUES (?, ?, ?)
ON CONFLICT (key, at) DO UPDATE SET count = count + excluded.count

-- name: prune_starts
-- ?1 key, ?2 until
DELETE FROM start WHERE key = ? AND at <= ?

-- name: state_names
-- gives (name) of each limit of which something is used
SELECT name FROM limit_state
