-- Permits of jobs that run: those of caps, and those of limits that jobs name.
-- include: wakeup, lines

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

-- A job holds no permit any more of the limits, as its lease has them; lines may have room. Refund
-- what was charged when it started then.
local function release_named(limits, refund_from)
  local costs = named_limits().costs_of(limits)
  for _, name in ipairs(costs.names) do
    named_limits().finish(name, costs.by_name[name], refund_from)
    lines().opened(name)
  end
end

-- Free the permits of a job: of caps, whose names have newlines between, and of the limits that its
-- lease has.
local function release(id, permits, limits, refund_from)
  if permits then
    for permit in string.gmatch(permits, '[^\n]+') do
      call('SREM', p .. 'permits:' .. permit, id)
      wake_for_permit(permit)
    end
    call('HDEL', p .. 'state:' .. id, 'permits')
  end
  if limits then release_named(limits, refund_from) end
end
