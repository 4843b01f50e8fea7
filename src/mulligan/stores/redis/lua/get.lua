-- Read a job as it is now.
-- KEYS[1]  prefix
-- ARGV     now, id
-- Result   its text, its state, its lease and who holds it, or '' twice, what is kept of its lease
--          if it is done, or '', its last failure or ''; false if it is unknown
-- include: base, last_failure
-- include: find_leases, waits_for

local id = ARGV[2]
local text = call('HGET', p .. 'jobs', id)
if not text then return false end
local lease, worker = find_lease(id)
local done = call('HGET', p .. 'done', id)
return { text, read_whole_state(id, not (lease or done)), lease or '', worker or '', done or '',
  last_failure(id) }
