-- Permits: who may run under a gate or a concurrency key, and who was set aside for want of one.
-- include: lanes

local function held_key(lane)
  return p .. 'held:' .. lane
end

local function held_at(limit, lane, key)
  return p .. 'held-at:' .. limit .. ':' .. lane .. ':' .. key
end

-- Set a job aside until a permit of its key is freed.
local function hold(member, lane, due, key, limit)
  call('ZADD', held_key(lane), due, member)
  call('ZADD', held_at(limit, lane, key), due, member)
  call('SADD', p .. 'held-by:' .. key, limit .. ':' .. lane)
  call('HSET', p .. 'state:' .. id_of(member), 'held', 1)
end

local function unhold(member, lane, key, limit)
  local group = held_at(limit, lane, key)
  call('ZREM', held_key(lane), member)
  call('ZREM', group, member)
  call('HDEL', p .. 'state:' .. id_of(member), 'held')
  if call('EXISTS', group) == 0 then call('SREM', p .. 'held-by:' .. key, limit .. ':' .. lane) end
end

-- A permit of the key may be free: let go of the first held job of each lane and limit.
local function let_go(key)
  local groups = call('SMEMBERS', p .. 'held-by:' .. key)
  if #groups == 0 then return end
  local used = call('SCARD', p .. 'permits:key:' .. key)
  for _, group in ipairs(groups) do
    local limit, lane = match(group, '^(%-?%d+):(.*)$')
    if tonumber(limit) > used then
      local first = call('ZRANGE', held_at(limit, lane, key), 0, 0, 'WITHSCORES')
      unhold(first[1], lane, key, limit)
      stand(first[1], lane, tonumber(first[2]))
    end
  end
end

-- Free the permits of a job, named one a line, and let go of jobs that its key held back.
local function release(id, permits, key)
  if permits then
    for permit in string.gmatch(permits, '[^\n]+') do
      call('SREM', p .. 'permits:' .. permit, id)
      ring_gate(permit)
    end
    call('HDEL', p .. 'state:' .. id, 'permits')
  end
  if key then let_go(key) end
end
