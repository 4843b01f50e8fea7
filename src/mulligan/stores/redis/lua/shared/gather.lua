-- Gathering: a job that awaits others is in no lane before the last of them has arrived.
-- include: base

local function count_gathering(queue, by)
  local key = p .. 'gathering'
  if call('HINCRBY', key, queue, by) == 0 then call('HDEL', key, queue) end
end
