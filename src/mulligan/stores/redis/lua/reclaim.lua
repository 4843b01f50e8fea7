-- Claim jobs whose worker stopped beating or is unknown, the longest running first.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, what it serves, lease seconds, limit
-- Result   for each job what shared/reclaimed.lua gives
-- include: base, memory
-- include: permits, workers, leases, tokens, job_text, pass_on, reclaimed

go_on_when_full()

local worker, limit = ARGV[2], tonumber(ARGV[7])
if not is_live(worker) then
  enlist(worker, ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), stamp)
end

for _, sleeper in ipairs(call('HKEYS', p .. 'sleepers')) do
  if not is_live(sleeper) then
    pass_on(sleeper)
    -- One that was only late claims anew.
    wake(sleeper)
  end
end

local lost = {}
for _, holder in ipairs(call('SMEMBERS', p .. 'holders')) do
  if not is_live(holder) then
    local held = call('HGETALL', running_key(holder))
    if #held == 0 then call('SREM', p .. 'holders', holder) end
    for at = 1, #held, 2 do
      local id, lease = held[at], read_lease(held[at + 1])
      local sequence = call('HGET', p .. 'state:' .. id, 'sequence')
      local _, _, sequence = locate(id, true, true, sequence)
      lost[#lost + 1] = { tonumber(lease.started), sequence or 0, id, lease, holder }
    end
  end
end
table.sort(lost, function(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)

local result = {}
for at = 1, math.min(limit, #lost) do
  local id, lease, holder = unpack(lost[at], 3)
  local text, counts, used = call('HGET', p .. 'jobs', id) or '', next_counts(lease.counts)
  -- The attempt stays that of the worker that lost it: only the holder changes.
  call('HDEL', running_key(holder), id)
  call('HSET', running_key(worker), id, token_of(text, used) .. '\t'
    .. common_text(counts, lease.flags, stamp, lease.started, lease.region, lease.lane))
  add_reclaimed(result, id, text, counts, lease, holder)
  local permits = lease.is_special and call('HGET', p .. 'state:' .. id, 'permits')
  release(id, permits, lease.limits)
end
finish_lines()
if #result > 0 then call('SADD', p .. 'holders', worker) end
return result
