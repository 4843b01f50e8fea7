-- Claim jobs whose worker stopped beating or is unknown, the longest running first.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, lease seconds, limit
-- Result   for each job: id, lane, its text, due or '', counts, and worker, region and start of the
--          attempt that was lost
-- include: permits, workers, leases

go_on_when_full()

local function give(result, id, counts, part, worker)
  local job, due = call('GET', p .. 'job:' .. id), call('HGET', p .. 'state:' .. id, 'due')
  local at = #result
  result[at + 1], result[at + 2] = id, part.lane
  result[at + 3], result[at + 4], result[at + 5] = job, due or '', counts
  result[at + 6], result[at + 7], result[at + 8] = worker, part.region, part.started
end

local worker, limit = ARGV[2], tonumber(ARGV[6])
keep(worker, ARGV[3], ARGV[4], tonumber(ARGV[5]))

local lost = {}
for _, holder in ipairs(call('SMEMBERS', p .. 'holders')) do
  if not is_live(holder) then
    local held = call('ZRANGE', p .. 'running:' .. holder, 0, limit - 1, 'WITHSCORES')
    if #held == 0 then call('SREM', p .. 'holders', holder) end
    for at = 1, #held, 2 do
      lost[#lost + 1] = { tonumber(held[at + 1]), sequence_of(held[at]), held[at], holder }
    end
  end
end
table.sort(lost, function(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)

local result = {}
for at = 1, math.min(limit, #lost) do
  local started, member, holder = lost[at][1], lost[at][3], lost[at][4]
  local id = id_of(member)
  local text = call('HGET', p .. 'running', id)
  call('ZREM', p .. 'running:' .. holder, member)
  if text then
    local _, counts, place, flags, part = read_lease(text)
    _, counts = next_counts(counts)
    -- The attempt stays that of the worker that lost it: only the holder changes.
    local kept = shared_part(stamp, part.started, part.region, part.lane, worker)
    call('HSET', p .. 'running', id, counts .. '\t' .. place .. '\t' .. flags .. kept)
    call('ZADD', p .. 'running:' .. worker, started, member)
    give(result, id, counts, part, holder)
    if find(flags, 's', 1, true) then
      local job = call('HMGET', p .. 'state:' .. id, 'permits', 'concurrency_key')
      release(id, job[1], job[2])
    end
  end
end
if #result > 0 then call('SADD', p .. 'holders', worker) end
return result
