-- Claim jobs whose worker stopped beating or is unknown, the longest running first.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, what it serves, lease seconds, limit
-- Result   for each job: id, lane, its text, due or '', counts, trail or '', and worker, region and
--          start of the attempt that was lost
-- include: permits, workers, leases, heads

go_on_when_full()

local function give(result, id, counts, lease)
  local at, state = #result, call('HMGET', p .. 'state:' .. id, 'due', 'trail')
  result[at + 1], result[at + 2], result[at + 3] = id, lease.lane, call('GET', p .. 'job:' .. id)
  result[at + 4], result[at + 5], result[at + 6] = state[1] or '', counts, state[2] or ''
  result[at + 7], result[at + 8], result[at + 9] = lease.worker, lease.region, lease.started
end

local worker, limit = ARGV[2], tonumber(ARGV[7])
keep(worker, ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]))

for _, sleeper in ipairs(call('HKEYS', p .. 'sleepers')) do
  if not is_live(sleeper) then
    pass_on(sleeper)
    -- One that was only late claims anew.
    ring(sleeper)
  end
end

local lost = {}
for _, holder in ipairs(call('SMEMBERS', p .. 'holders')) do
  if not is_live(holder) then
    local held = call('SMEMBERS', p .. 'running:' .. holder)
    if #held == 0 then call('SREM', p .. 'holders', holder) end
    for at, text in ipairs(read_many(p .. 'running', held, 1, #held)) do
      local id = held[at]
      local lease = text and read_lease(text)
      local _, _, place = whereabouts(id, true, true, call('HGET', p .. 'state:' .. id, 'sequence'))
      if lease and place then
        lost[#lost + 1] = { tonumber(lease.started), place, id, lease }
      else
        call('SREM', p .. 'running:' .. holder, id)
      end
    end
  end
end
table.sort(lost, function(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)

local result = {}
for at = 1, math.min(limit, #lost) do
  local id, lease = lost[at][3], lost[at][4]
  local _, counts = next_counts(lease.counts)
  -- The attempt stays that of the worker that lost it: only the holder changes.
  call('HSET', p .. 'running', id, lease_text(counts, lease.flags, stamp, lease.started,
    lease.region, lease.lane, worker))
  call('SREM', p .. 'running:' .. lease.worker, id)
  call('SADD', p .. 'running:' .. worker, id)
  give(result, id, counts, lease)
  if lease.is_special then
    local job = call('HMGET', p .. 'state:' .. id, 'permits', 'concurrency_key')
    release(id, job[1], job[2])
  end
end
if #result > 0 then call('SADD', p .. 'holders', worker) end
return result
