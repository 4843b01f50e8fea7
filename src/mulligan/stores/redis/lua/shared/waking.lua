-- Waking sleepers. Workers whose plans have the same lanes and gates share a shape: a lane knows
-- the shapes that wait on it, and a shape its sleepers with the time at which each wakes by itself.
-- include: base

local BELL_SECONDS = 60
local waiting, awake = {}, {}

local function is_live(worker)
  local lives_until = call('ZSCORE', p .. 'workers', worker)
  return lives_until and tonumber(lives_until) > now
end

-- Who was rung sleeps no more, but is remembered until it comes: when it leaves or fills up
-- instead, what it was rung for is another's.
local function ring(worker)
  local bell = p .. 'bell:' .. worker
  call('LPUSH', bell, stamp)
  call('EXPIRE', bell, BELL_SECONDS)
end

-- The live sleeper of the shape that wakes first by itself, and when. The dead are rung as they
-- are dropped: one that was only late then claims anew.
local function first_sleeper(shape)
  local key = p .. 'sleeping:' .. shape
  while not awake[shape] do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if not first[1] then
      awake[shape] = true
    elseif is_live(first[1]) then
      return first[1], tonumber(first[2])
    else
      call('ZREM', key, first[1])
      ring(first[1])
    end
  end
end

-- Wake some sleeper of the shape, this one if another turns out to be dead.
local function rouse(shape, worker)
  local key = p .. 'sleeping:' .. shape
  local other = call('ZRANDMEMBER', key)
  if is_live(other) then worker = other end
  call('ZREM', key, worker)
  ring(worker)
end

-- Wake one sleeper for a job in this lane, due then, unless one will wake in time: one of those
-- that may take it soonest, at once rather than after a grace.
local function ring_for(lane, due)
  local shapes = waiting[lane]
  if not shapes then
    shapes = call('HGETALL', p .. 'waiting:' .. lane)
    waiting[lane] = shapes
  end
  local chosen, chosen_shape, soonest, known
  for at = 1, #shapes, 2 do
    local worker, wakes = first_sleeper(shapes[at])
    local waited = tonumber(shapes[at + 1])
    if worker and (not soonest or waited < soonest) then
      chosen, chosen_shape, soonest, known = worker, shapes[at], waited, false
    end
    if worker and waited == soonest and wakes <= due + waited then known = true end
  end
  if chosen and not known then rouse(chosen_shape, chosen) end
end

-- Wake one sleeper that a permit of this gate may help.
local function ring_gate(key)
  for _, shape in ipairs(call('SMEMBERS', p .. 'gated:' .. key)) do
    local worker = first_sleeper(shape)
    if worker then
      rouse(shape, worker)
      return
    end
  end
end

-- Starts were counted that widen a share: wake one sleeper that has work behind it.
local function ring_share(key)
  for _, entry in ipairs(call('SMEMBERS', p .. 'sharing:' .. key)) do
    local shape, lane = match(entry, '^([^\t]*)\t(.*)$')
    local worker = call('SISMEMBER', p .. 'lanes', lane) == 1 and first_sleeper(shape)
    if worker then
      rouse(shape, worker)
      return
    end
  end
end

-- Facts changed: plans made before are refused, and every sleeper makes a new one.
local function change()
  call('HINCRBY', p .. 'counters', 'epoch', 1)
  for _, shape in ipairs(call('SMEMBERS', p .. 'shapes')) do
    for _, worker in ipairs(call('ZRANGE', p .. 'sleeping:' .. shape, 0, -1)) do
      ring(worker)
    end
    local known = cjson.decode(call('GET', p .. 'shape:' .. shape))
    for _, lane in ipairs(known.lanes) do
      call('HDEL', p .. 'waiting:' .. lane[1], shape)
    end
    for _, key in ipairs(known.gates) do
      call('SREM', p .. 'gated:' .. key, shape)
    end
    for _, share in ipairs(known.shares) do
      call('SREM', p .. 'sharing:' .. share[1], shape .. '\t' .. share[2])
    end
    call('DEL', p .. 'sleeping:' .. shape, p .. 'shape:' .. shape)
  end
  call('DEL', p .. 'shapes')
end

-- Forget that the worker sleeps, and any ring it has not heard; the shape it slept in, if any.
local function get_up(worker)
  local shape = call('HGET', p .. 'sleepers', worker)
  if shape then
    call('HDEL', p .. 'sleepers', worker)
    call('ZREM', p .. 'sleeping:' .. shape, worker)
  end
  call('DEL', p .. 'bell:' .. worker)
  return shape
end
