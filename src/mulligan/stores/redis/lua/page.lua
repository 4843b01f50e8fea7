-- Look through some jobs, newest first, for those that match.
-- KEYS[1]  prefix
-- ARGV     now, index to look through (order, failed: and a queue, or running: what workers hold, of
--          which there is no index), sequence to begin below, how many to look at, and what must match or '': status, queue and region as keys spell them,
--          task; then 1 for whole jobs, 0 for jobs without bodies and results
-- Result   sequence to go on below, or '' after the last; then for each match: id, sequence, and
--          what get.lua gives
-- include: base, many, last_failure
-- include: find_leases, waits_for

-- What workers hold, as an index would give it.
local function newest_running(below, most)
  local held, found = {}, {}
  below = tonumber(match(below, '^%((%d+)$')) or math.huge
  for _, holder in ipairs(call('SMEMBERS', p .. 'holders')) do
    for _, id in ipairs(call('HKEYS', running_key(holder))) do
      local sequence = tonumber(call('ZSCORE', p .. 'order', id) or '')
      if sequence and sequence < below then held[#held + 1] = { id, sequence } end
    end
  end
  table.sort(held, function(one, other) return one[2] > other[2] end)
  for at = 1, math.min(#held, most) do
    found[2 * at - 1], found[2 * at] = held[at][1], format('%d', held[at][2])
  end
  return found
end

local found
if ARGV[2] == 'running' then
  found = newest_running(ARGV[3], tonumber(ARGV[4]))
else
  found = call('ZREVRANGEBYSCORE', p .. ARGV[2], ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
end
local result = { #found < 2 * tonumber(ARGV[4]) and '' or found[#found] }

local function is(wanted, value)
  return wanted == '' or wanted == value
end

local ids, matches, unended = {}, {}, {}
for at = 1, #found, 2 do ids[#ids + 1] = found[at] end
local texts, dones = read_many(p .. 'jobs', ids, 1, #ids), read_many(p .. 'done', ids, 1, #ids)

for number, id in ipairs(ids) do
  local text, state = texts[number] or '', p .. 'state:' .. id
  local lane, task = match(text, '^%d+\t[^\t]*\t([^\t:]*:[^\t:]*:[^\t:]*)\t([^\t]*)\t')
  -- Of an invalid job, its state may know more.
  lane = lane or call('HGET', state, 'lane') or ''
  local queue, region = match(lane, '^[^:]*:([^:]*):(.*)$')
  if is(ARGV[6], queue) and is(ARGV[7], region) and is(ARGV[8], task) then
    local ended = dones[number] and 'done' or call('HGET', state, 'ended')
    matches[#matches + 1] = { number, text, ended }
    if not ended then unended[#unended + 1] = id end
  end
end
find_leases(unended)

-- What comes before the body, and before the result.
local before_body = '^' .. string.rep('[^\t]*\t', 4)
local before_result = '^' .. string.rep('[^\t]*\t', 7)

local function lean(value, before)
  if ARGV[9] == '1' then return value end
  return match(value, before) or ''
end

for _, each in ipairs(matches) do
  local number, text, ended = unpack(each)
  local id, lease, worker = ids[number]
  if not ended then lease, worker = find_lease(id) end
  if is(ARGV[5], ended or lease and 'processing' or 'pending') then
    result[#result + 1] = { id, found[2 * number], lean(text, before_body),
      read_whole_state(id, not (ended or lease)), lease or '', worker or '',
      lean(dones[number] or '', before_result), last_failure(id) }
  end
end
return result
