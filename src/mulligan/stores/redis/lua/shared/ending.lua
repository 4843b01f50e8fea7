-- Ending jobs: done, failed or cancelled, with the indexes and counts that go with it.
-- include: permits, unique

local ended_counts = { done = {}, failed = {}, cancelled = {} }
local ended_ids = {}

local function count_ended(status, queue, by)
  local counts = ended_counts[status]
  counts[queue] = (counts[queue] or 0) + by
end

-- Enter an ended job into what lists it: dead letters by queue, all others by when they ended.
local function list_ended(id, status, queue)
  count_ended(status, queue, 1)
  if status == 'failed' then
    call('ZADD', p .. 'failed:' .. queue, call('ZSCORE', p .. 'jobs', id), id)
  else
    ended_ids[#ended_ids + 1] = stamp
    ended_ids[#ended_ids + 1] = id
  end
end

local function write_ended()
  call_many('ZADD', p .. 'done', ended_ids)
  ended_ids = {}
end

-- Forget an ended job altogether; it may have ended in this very script.
local function erase(id, status, queue)
  write_ended()
  count_ended(status, queue, -1)
  call('ZREM', p .. 'jobs', id)
  call('ZREM', status == 'failed' and p .. 'failed:' .. queue or p .. 'done', id)
  call('DEL', p .. 'job:' .. id, p .. 'state:' .. id, p .. 'history:' .. id, p .. 'arrived:' .. id)
end

local function finish_ending()
  write_ended()
  for status, counts in pairs(ended_counts) do
    for queue, by in pairs(counts) do
      local field = status .. ':' .. queue
      if call('HINCRBY', p .. 'ended', field, by) <= 0 then call('HDEL', p .. 'ended', field) end
    end
  end
end
