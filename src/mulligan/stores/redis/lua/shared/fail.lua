-- Failed attempts and dead letters.
-- include: ended

-- Add a failed attempt to the history of a job.
local function add_attempt(id, failure)
  local key = p .. 'history:' .. id
  if call('RPUSH', key, stamp .. ' ' .. failure) > 50 then call('LTRIM', key, -50, -1) end
end

-- Dead letters are listed by queue, in the order in which they came.
local function list_failed(id, queue, sequence)
  count_ended('failed', queue, 1)
  other_ids[#other_ids + 1] = id
  call('ZADD', p .. 'failed:' .. queue, sequence, id)
end
