-- Look through some jobs, newest first, for those that match.
-- KEYS[1]  prefix
-- ARGV     now, index to look through (jobs, or failed: and a queue), place to begin below, how
--          many to look at, and what must match or '': status, queue, region, task
-- Result   place to go on below, or '' after the last; then for each match: id, place, and what
--          get.lua gives
-- include: lanes

local found = call('ZREVRANGEBYSCORE', p .. ARGV[2], ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0,
  ARGV[4])
local result = { #found < 2 * tonumber(ARGV[4]) and '' or found[#found] }

local function is(wanted, value)
  return wanted == '' or wanted == value
end

for at = 1, #found, 2 do
  local id = found[at]
  local key = p .. 'state:' .. id
  local _, _, queue, region, _, task = read_header(id)
  if is(ARGV[6], queue) and is(ARGV[7], region) and is(ARGV[8], task) then
    local ended = call('HGET', key, 'ended')
    local lease = not ended and call('HGET', p .. 'running', id) or ''
    if is(ARGV[5], ended or (lease ~= '' and 'processing' or 'pending')) then
      result[#result + 1] = { id, found[at + 1], call('GET', p .. 'job:' .. id),
        call('HGETALL', key), lease, call('LINDEX', p .. 'history:' .. id, -1) or '' }
    end
  end
end
return result
