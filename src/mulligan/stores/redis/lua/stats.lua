-- Count everything, at one instant.
-- KEYS[1]  prefix
-- ARGV     now
-- Result   packed: now, lanes {lane, ready, delayed, oldest due}, running {lane, region, count},
--          ended {status:queue, count}, delayed {queue, total, ready now, ready in an hour},
--          workers {about, beat_at, joined_at, live, running}, gathering {queue, count}
-- include: base
-- include: leases, heads

local lanes, running, delayed, workers = {}, {}, {}, {}
local seen = {}

local function count_lane(lane)
  local sorted, lined = sorted_key(lane), p .. 'lined:' .. lane
  local ready = call('ZCOUNT', sorted, '-inf', now)
  local later = call('ZCARD', sorted) - ready
  local oldest = own_due_in(lane)
  if has_list(lane) then
    ready = ready + call('LLEN', p .. lane) - call('ZCARD', p .. 'gone:' .. lane)
  end
  local due_in_lines = call('ZCOUNT', lined, '-inf', now)
  ready, later = ready + due_in_lines, later + call('ZCARD', lined) - due_in_lines
  oldest = earlier(oldest, tonumber(call('ZRANGE', lined, 0, 0, 'WITHSCORES')[2]))
  if ready + later > 0 then lanes[#lanes + 1] = { lane, ready, later, oldest } end
end

local function count_delayed(queue)
  local key = p .. 'delayed:' .. queue
  local total = call('ZCARD', key)
  if total > 0 then
    delayed[#delayed + 1] = { queue, total, call('ZCOUNT', key, '-inf', now),
      call('ZCOUNT', key, '-inf', now + 3600) }
  end
end

for _, lane in ipairs(call('SMEMBERS', p .. 'lanes')) do
  count_lane(lane)
  local queue = queue_of(lane)
  if not seen[queue] then
    seen[queue] = true
    count_delayed(queue)
  end
end

local by_lane = {}
for _, holder in ipairs(call('SMEMBERS', p .. 'holders')) do
  for _, text in ipairs(call('HVALS', running_key(holder))) do
    local lease = read_lease(text)
    local where = lease.lane .. '\t' .. lease.region
    if not by_lane[where] then
      by_lane[where] = { lease.lane, lease.region, 0 }
      running[#running + 1] = by_lane[where]
    end
    by_lane[where][3] = by_lane[where][3] + 1
  end
end

local function counts_in(name)
  local stored, counts = call('HGETALL', p .. name), {}
  for at = 1, #stored, 2 do counts[#counts + 1] = { stored[at], tonumber(stored[at + 1]) } end
  return counts
end

local known = call('ZRANGE', p .. 'workers', 0, -1, 'WITHSCORES')
for at = 1, #known, 2 do
  local about = call('HMGET', p .. 'worker:' .. known[at], 'about', 'beat_at', 'joined_at')
  workers[#workers + 1] = { about[1], tonumber(about[2]), tonumber(about[3]),
    tonumber(known[at + 1]) > now, call('HLEN', running_key(known[at])) }
end
return cmsgpack.pack({ now, lanes, running, counts_in('ended'), delayed, workers,
  counts_in('gathering') })
