-- Which sleeper is woken for a job. Workers whose plans have the same lanes and limits share a
-- shape: a lane knows the shapes that wait on it, and a shape its sleepers with the time at which
-- each wakes by itself.
-- include: base, wake

-- By lane, the shapes that wait on it; by shape, whether nobody sleeps in it.
local waiting, deserted = {}, {}
-- Every worker that sleeps, with its shape.
local sleepers

local function is_live(worker)
  local lives_until = call('ZSCORE', p .. 'workers', worker)
  return lives_until and tonumber(lives_until) > now
end

-- The live sleeper of the shape that wakes first by itself, when, and whether there is another. The
-- dead are woken as they are dropped: one that was only late then claims anew.
local function first_sleeper(shape)
  local key = p .. 'sleeping:' .. shape
  while not deserted[shape] do
    local first = call('ZRANGE', key, 0, 1, 'WITHSCORES')
    if not first[1] then
      deserted[shape] = true
    elseif is_live(first[1]) then
      return first[1], tonumber(first[2]), first[3] ~= nil
    else
      call('ZREM', key, first[1])
      wake(first[1])
    end
  end
end

-- Wake some sleeper of the shape, this one if there is no other or that turns out to be dead.
local function wake_one(shape, worker, has_others)
  local key = p .. 'sleeping:' .. shape
  local other = has_others and call('ZRANDMEMBER', key)
  if other and is_live(other) then worker = other end
  call('ZREM', key, worker)
  wake(worker)
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

-- Whether a live worker sleeps, or was woken and has yet to claim, that may take from the lane
-- sooner than one that must wait so long.
local function has_sooner_sleeper(lane, waited)
  local shapes, sooner = shapes_on(lane), {}
  for at = 1, #shapes, 2 do
    local other = read_wait(shapes[at + 1])
    if other < waited then sooner[shapes[at]] = true end
  end
  if not next(sooner) then return false end
  sleepers = sleepers or call('HGETALL', p .. 'sleepers')
  for at = 1, #sleepers, 2 do
    local worker, shape = sleepers[at], sleepers[at + 1]
    if sooner[shape] and worker ~= awake and is_live(worker) then return true end
  end
  return false
end

-- Wake one sleeper for a job in this lane, due then, unless one will wake in time: one of those
-- that may take it soonest, at once rather than after a grace. Whether one was woken.
local function wake_for(lane, due)
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
  if yields and not has_sooner_sleeper(lane, soonest) then soonest = 0 end
  if wakes <= due + soonest then return false end
  wake_one(chosen_shape, chosen, has_others)
  return true
end
