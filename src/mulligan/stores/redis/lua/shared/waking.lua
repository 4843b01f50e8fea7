-- Waking sleepers. Workers whose plans have the same lanes and gates share a shape: a lane knows
-- the shapes that wait on it, and a shape its sleepers with the time at which each wakes by itself.
-- include: base

local waiting, awake = {}, {}
-- The worker that this script has got up.
local asleep, risen

local function is_live(worker)
  local lives_until = call('ZSCORE', p .. 'workers', worker)
  return lives_until and tonumber(lives_until) > now
end

-- Who was rung sleeps no more, but is remembered until it comes: when it leaves or fills up
-- instead, what it was rung for is another's.
local function ring(worker)
  call('LPUSH', p .. 'bell:' .. worker, stamp)
end

-- The live sleeper of the shape that wakes first by itself, when, and whether there is another. The
-- dead are rung as they are dropped: one that was only late then claims anew.
local function first_sleeper(shape)
  local key = p .. 'sleeping:' .. shape
  while not awake[shape] do
    local first = call('ZRANGE', key, 0, 1, 'WITHSCORES')
    if not first[1] then
      awake[shape] = true
    elseif is_live(first[1]) then
      return first[1], tonumber(first[2]), first[3] ~= nil
    else
      call('ZREM', key, first[1])
      ring(first[1])
    end
  end
end

-- Wake some sleeper of the shape, this one if there is no other or that turns out to be dead.
local function rouse(shape, worker, has_others)
  local key = p .. 'sleeping:' .. shape
  local other = has_others and call('ZRANDMEMBER', key)
  if other and is_live(other) then worker = other end
  call('ZREM', key, worker)
  ring(worker)
end

-- The shapes that wait on the lane, each followed by how.
local function shapes_on(lane)
  local shapes = waiting[lane]
  if not shapes then
    shapes = call('HGETALL', p .. 'waiting:' .. lane)
    waiting[lane] = shapes
  end
  return shapes
end

-- How long a job must have been due for a shape, and whether only while another may take it sooner.
local function read_wait(text)
  local waited = tonumber(text)
  if waited then return waited, false end
  return tonumber(match(text, '^%S+')), true
end

-- Whether a live worker sleeps, or was rung and has yet to come, that may take from the lane sooner
-- than one that must wait so long.
local function is_sooner(lane, waited)
  local shapes, sooner = shapes_on(lane), {}
  for at = 1, #shapes, 2 do
    local other = read_wait(shapes[at + 1])
    if other < waited then sooner[shapes[at]] = true end
  end
  if not next(sooner) then return false end
  asleep = asleep or call('HGETALL', p .. 'sleepers')
  for at = 1, #asleep, 2 do
    if sooner[asleep[at + 1]] and asleep[at] ~= risen and is_live(asleep[at]) then return true end
  end
  return false
end

-- Wake one sleeper for a job in this lane, due then, unless one will wake in time: one of those
-- that may take it soonest, at once rather than after a grace. Whether one was woken.
local function ring_for(lane, due)
  local shapes = shapes_on(lane)
  local chosen, chosen_shape, has_others, soonest, yields, wakes
  for at = 1, #shapes, 2 do
    local worker, wakes_at, others = first_sleeper(shapes[at])
    local waited, may_yield = read_wait(shapes[at + 1])
    if worker and (not soonest or waited < soonest) then
      chosen, chosen_shape, has_others, soonest = worker, shapes[at], others, waited
      yields, wakes = may_yield, wakes_at
    elseif worker and waited == soonest then
      yields, wakes = yields and may_yield, math.min(wakes, wakes_at)
    end
  end
  if not chosen then return false end
  if yields and not is_sooner(lane, soonest) then soonest = 0 end
  if wakes <= due + soonest then return false end
  rouse(chosen_shape, chosen, has_others)
  return true
end

-- Wake one sleeper for each of so many jobs, as long as there are any to wake.
local function ring_for_each(lane, due, count)
  for _ = 1, count do
    if not ring_for(lane, due) then return end
  end
end

-- Wake one sleeper that a permit of this gate may help.
local function ring_gate(key)
  for _, shape in ipairs(call('SMEMBERS', p .. 'gated:' .. key)) do
    local worker, _, has_others = first_sleeper(shape)
    if worker then
      rouse(shape, worker, has_others)
      return
    end
  end
end

-- Starts were counted that widen a share: wake one sleeper that has work behind it.
local function ring_share(key)
  for _, entry in ipairs(call('SMEMBERS', p .. 'sharing:' .. key)) do
    local shape, lane = match(entry, '^([^\t]*)\t(.*)$')
    if call('SISMEMBER', p .. 'lanes', lane) == 1 then
      local worker, _, has_others = first_sleeper(shape)
      if worker then
        rouse(shape, worker, has_others)
        return
      end
    end
  end
end

-- Make a shape known to the lanes and gates that it waits for, if it is not yet.
local function learn_shape(shape, waits)
  if call('SADD', p .. 'shapes', shape) == 0 then return end
  local known = cjson.decode(waits)
  call('SET', p .. 'shape:' .. shape, waits)
  for _, lane in ipairs(known.lanes) do call('HSET', p .. 'waiting:' .. lane[1], shape, lane[2]) end
  for _, key in ipairs(known.gates) do call('SADD', p .. 'gated:' .. key, shape) end
  for _, share in ipairs(known.shares) do
    call('SADD', p .. 'sharing:' .. share[1], shape .. '\t' .. share[2])
  end
end

local function forget_shape(shape)
  local known = cjson.decode(call('GET', p .. 'shape:' .. shape))
  for _, lane in ipairs(known.lanes) do call('HDEL', p .. 'waiting:' .. lane[1], shape) end
  for _, key in ipairs(known.gates) do call('SREM', p .. 'gated:' .. key, shape) end
  for _, share in ipairs(known.shares) do
    call('SREM', p .. 'sharing:' .. share[1], shape .. '\t' .. share[2])
  end
  call('DEL', p .. 'shape:' .. shape)
  call('SREM', p .. 'shapes', shape)
end

-- Facts changed: plans made before are refused, and every sleeper makes a new one. Shapes that
-- nobody has slept in since are forgotten.
local function change()
  call('INCR', p .. 'epoch')
  local slept_in = {}
  for _, shape in ipairs(call('HVALS', p .. 'sleepers')) do slept_in[shape] = true end
  for _, shape in ipairs(call('SMEMBERS', p .. 'shapes')) do
    for _, worker in ipairs(call('ZRANGE', p .. 'sleeping:' .. shape, 0, -1)) do
      ring(worker)
    end
    call('DEL', p .. 'sleeping:' .. shape)
    if not slept_in[shape] then forget_shape(shape) end
  end
end

-- The worker is awake, and no ring is to be heard any more; the shape it slept in, if any. It is to
-- lie down again in this script, or to get up. Begins with a write that a full memory lets through.
local function rise(worker)
  call('DEL', p .. 'bell:' .. worker)
  risen = worker
  local shape = call('HGET', p .. 'sleepers', worker)
  if shape then call('ZREM', p .. 'sleeping:' .. shape, worker) end
  return shape
end

-- Remember that the worker waits for what is in the shape, and when it wakes by itself, given the
-- shape that it slept in until now.
local function lie_down(worker, shape, waits, wakes, before)
  if shape ~= before then
    learn_shape(shape, waits)
    call('HSET', p .. 'sleepers', worker, shape)
  end
  call('ZADD', p .. 'sleeping:' .. shape, wakes, worker)
end

-- Forget that the worker sleeps; the shape it slept in, if any.
local function get_up(worker)
  local shape = rise(worker)
  if shape then call('HDEL', p .. 'sleepers', worker) end
  return shape
end
