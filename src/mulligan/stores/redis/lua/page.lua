-- Look through some jobs, newest first, for those that match.
-- KEYS[1]  prefix
-- ARGV     now, index to look through (order, or failed: and a queue), place to begin below, how
--          many to look at, and what must match or '': status, queue and region as keys spell them,
--          task
-- Result   place to go on below, or '' after the last; then for each match: id, place, and what
--          get.lua gives
-- include: leases

local found = call('ZREVRANGEBYSCORE', p .. ARGV[2], ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0,
  ARGV[4])
local result = { #found < 2 * tonumber(ARGV[4]) and '' or found[#found] }

local function is(wanted, value)
  return wanted == '' or wanted == value
end

for at = 1, #found, 2 do
  local id = found[at]
  local text, state = call('HGET', p .. 'jobs', id) or '', p .. 'state:' .. id
  local lane, task = match(text, '^%d+\t[^\t]*\t([^\t:]*:[^\t:]*:[^\t:]*)\t([^\t]*)\t')
  -- Of a damaged job, its state may know more.
  lane = lane or call('HGET', state, 'lane') or ''
  local queue, region = match(lane, '^[^:]*:([^:]*):(.*)$')
  if is(ARGV[6], queue) and is(ARGV[7], region) and is(ARGV[8], task) then
    local lease, worker
    local done, ended = call('HGET', p .. 'done', id), call('HGET', state, 'ended')
    if not (done or ended) then lease, worker = find_lease(id) end
    local status = done and 'done' or ended or lease and 'processing' or 'pending'
    if is(ARGV[5], status) then
      result[#result + 1] = { id, found[at + 1], text, call('HGETALL', state), lease or '',
        worker or '', done or '', call('LINDEX', p .. 'history:' .. id, -1) or '' }
    end
  end
end
return result
