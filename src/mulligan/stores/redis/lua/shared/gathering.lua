-- Gathering: a job that awaits others stands in no lane before the last of them has arrived.
-- include: lanes

local function count_gathering(queue, by)
  local key = p .. 'gathering'
  if call('HINCRBY', key, queue, by) == 0 then call('HDEL', key, queue) end
end

-- A job is done that arrives here at this place, with its result, if it has one. After the last,
-- the job that awaited them may start.
local function arrive(id, place, result)
  local key = p .. 'state:' .. id
  local job = call('HMGET', key, 'awaits', 'ended', 'lane')
  if tonumber(job[1] or 0) == 0 or job[2] then return end
  -- The sign tells an empty result from none.
  local arrived = result and '=' .. result or ''
  if call('HSETNX', p .. 'arrived:' .. id, place, arrived) == 0 then return end
  if call('HINCRBY', key, 'awaits', -1) == 0 then
    local due, stands_at = join(id, job[3], 0)
    call('HSET', key, 'due', number_text(due), 'stands_at', stands_at)
    count_gathering(queue_of(job[3]), -1)
  end
end
