-- Read a job as it is now.
-- KEYS[1]  prefix
-- ARGV     now, id
-- Result   its text, its state, its lease or '', its last failure or ''; false if it is unknown
-- include: base

local id = ARGV[2]
local text = call('GET', p .. 'job:' .. id)
if not text then return false end
return { text, call('HGETALL', p .. 'state:' .. id), call('HGET', p .. 'running', id) or '',
  call('LINDEX', p .. 'history:' .. id, -1) or '' }
