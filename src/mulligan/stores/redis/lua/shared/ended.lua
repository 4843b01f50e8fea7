-- What is written once for all jobs that a script ends: their number by status and queue, and their
-- ids in the order in which they ended. Whoever waits for one of them is told.
-- include: base, tell

local ended_counts = { done = {}, failed = {}, cancelled = {} }
local ended_ids, ended_count = {}, 0
-- Those that are not in the list of `past`: dead letters, and what says how long it is kept.
local other_ids = {}

local function count_ended(status, queue, by)
  local counts = ended_counts[status]
  counts[queue] = (counts[queue] or 0) + by
end

local function finish_end()
  if ended_count > 0 then
    call('RPUSH', p .. 'past', stamp .. '\t' .. table.concat(ended_ids, '\t'))
  end
  tell_ended(ended_ids, ended_count)
  tell_ended(other_ids, #other_ids)
  for status, counts in pairs(ended_counts) do
    for queue, by in pairs(counts) do
      local field = status .. ':' .. queue
      if call('HINCRBY', p .. 'ended', field, by) <= 0 then call('HDEL', p .. 'ended', field) end
    end
  end
end
