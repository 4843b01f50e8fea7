-- Permits: who may run under a cap or a concurrency key. A job whose key has no permit left is held
-- until one is freed.
-- include: insert, members

local function held_at(limit, lane, key)
  return p .. 'held-at:' .. limit .. ':' .. lane .. ':' .. key
end

local function unhold(member, lane, key, limit)
  local others = held_at(limit, lane, key)
  call('ZREM', p .. 'held:' .. lane, member)
  call('ZREM', others, member)
  call('HDEL', p .. 'state:' .. id_of(member), 'held')
  if call('EXISTS', others) == 0 then call('SREM', p .. 'held-by:' .. key, limit .. ':' .. lane) end
end

-- A permit of the key may be free: free the first held job of each lane and limit.
local function free_held(key)
  local entries = call('SMEMBERS', p .. 'held-by:' .. key)
  if #entries == 0 then return end
  local used = call('SCARD', p .. 'permits:key:' .. key)
  for _, entry in ipairs(entries) do
    local limit, lane = match(entry, '^(%-?%d+):(.*)$')
    if tonumber(limit) > used then
      local first = call('ZRANGE', held_at(limit, lane, key), 0, 0, 'WITHSCORES')
      unhold(first[1], lane, key, limit)
      insert_by_due(first[1], lane, tonumber(first[2]))
    end
  end
end

-- Wake one sleeper that a permit of this limit may help.
local function wake_for_permit(key)
  for _, shape in ipairs(call('SMEMBERS', p .. 'waiting-permit:' .. key)) do
    local worker, _, has_others = first_sleeper(shape)
    if worker then
      wake_one(shape, worker, has_others)
      return
    end
  end
end

-- Free the permits of a job, whose names have newlines between, and the jobs that its key holds.
local function release(id, permits, key)
  if permits then
    for permit in string.gmatch(permits, '[^\n]+') do
      call('SREM', p .. 'permits:' .. permit, id)
      wake_for_permit(permit)
    end
    call('HDEL', p .. 'state:' .. id, 'permits')
  end
  if key then free_held(key) end
end
