-- Limits during a claim: what they allow, and what is charged to them. Numbers are read once and
-- written back once.
-- include: permits, times

local used, windows = {}, {}

local function permits_used(key)
  if not used[key] then used[key] = call('SCARD', p .. 'permits:' .. key) end
  return used[key]
end

-- Give the job a permit; gives the names of its permits so far, with newlines between.
local function give_permit(key, id, permits)
  local before = permits_used(key)
  used[key] = before + call('SADD', p .. 'permits:' .. key, id)
  return permits and permits .. '\n' .. key or key
end

-- The starts that count now: their number, the first of them, and how many this claim adds.
local function window(key, per)
  local known = windows[key]
  if known then return known end
  known = { total = tonumber(call('HGET', p .. 'started', key) or 0), added = 0 }
  local list = p .. 'starts:' .. key
  while true do
    local first = call('LINDEX', list, 0)
    if not first then break end
    local at, count = match(first, '^(%S+) (%d+)$')
    if rounded(tonumber(at) + per) > now then
      known.first = tonumber(at)
      break
    end
    call('LPOP', list)
    known.total, known.changed = known.total - tonumber(count), true
  end
  windows[key] = known
  return known
end

local function read_limits(packed)
  local limits = {}
  for number, limit in ipairs(packed) do
    limits[number] = { kind = limit[1], key = limit[2], most = limit[3], per = limit[4],
      ratio = limit[5], of = limit[6] }
    -- A rate that only counts is sent with a limit below any.
    if limit[3] < 0 and limit[1] == 'rate' then limits[number].most = nil end
  end
  return limits
end

-- How many more starts the limit allows now.
local function room_in(limit)
  if limit.kind == 'running' then return limit.most - permits_used(limit.key) end
  if not limit.most then return 1 end
  local most = limit.most
  if limit.of ~= '' then
    most = math.max(most, math.floor(limit.ratio * window(limit.of, limit.per).total))
  end
  return most - window(limit.key, limit.per).total
end

local function all_have_room(limits)
  for _, limit in ipairs(limits) do
    if room_in(limit) <= 0 then return false end
  end
  return true
end

-- Seconds until a closed limit opens by itself; nil if only another's end opens it.
local function reopens_in(limit)
  if limit.kind == 'running' then return nil end
  local first = window(limit.key, limit.per).first
  return first and rounded(first + limit.per) - now
end

-- Charge the start of the job to the limit; gives the names of its permits.
local function charge(limit, id, permits)
  if limit.kind == 'running' then return give_permit(limit.key, id, permits) end
  local known = window(limit.key, limit.per)
  -- Fresh starts are many and need no exact window: a second each is enough, rounded down.
  known.at = limit.most and now or math.floor(now)
  known.first = known.first or known.at
  known.total, known.added, known.changed = known.total + 1, known.added + 1, true
  return permits
end

-- Starts were counted that widen a share: wake one sleeper whose lane has jobs.
local function wake_for_share(key)
  for _, entry in ipairs(call('SMEMBERS', p .. 'waiting-share:' .. key)) do
    local shape, lane = match(entry, '^([^\t]*)\t(.*)$')
    if call('SISMEMBER', p .. 'lanes', lane) == 1 then
      local worker, _, has_others = first_sleeper(shape)
      if worker then
        wake_one(shape, worker, has_others)
        return
      end
    end
  end
end

local function write_windows()
  for key, known in pairs(windows) do
    if known.added > 0 then
      local list = p .. 'starts:' .. key
      local last = call('LINDEX', list, -1)
      local at, count = match(last or '', '^(%S+) (%d+)$')
      if at and tonumber(at) == known.at then
        call('LSET', list, -1, at .. ' ' .. (tonumber(count) + known.added))
      else
        call('RPUSH', list, number_text(known.at) .. ' ' .. known.added)
      end
      wake_for_share(key)
    end
    if known.changed then call('HSET', p .. 'started', key, known.total) end
  end
end
