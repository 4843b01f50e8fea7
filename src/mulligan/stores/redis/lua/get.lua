-- Read a job as it is now.
-- KEYS[1]  prefix
-- ARGV     now, id
-- Result   its text, its state, its lease and who holds it, or '' twice, what is kept of its lease
--          if it is done, or '', its last failure or ''; false if it is unknown
-- include: base, last_failure
-- include: find_leases

local id = ARGV[2]
local text = call('HGET', p .. 'jobs', id)
if not text then return false end
local lease, worker = find_lease(id)
return { text, call('HGETALL', p .. 'state:' .. id), lease or '', worker or '',
  call('HGET', p .. 'done', id) or '', last_failure(id) }
