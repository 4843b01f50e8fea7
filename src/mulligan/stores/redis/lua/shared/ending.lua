-- Ending jobs: done, failed or cancelled, with the indexes and counts that go with it.
-- include: permits

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

-- Give up the unique key of a job that ends.
local function free_unique(id, queue, key)
  if key and call('HGET', p .. 'unique:' .. queue, key) == id then
    call('HDEL', p .. 'unique:' .. queue, key)
  end
end

-- Forget an ended job altogether.
local function erase(id, status, queue)
  count_ended(status, queue, -1)
  call('ZREM', p .. 'jobs', id)
  call('ZREM', status == 'failed' and p .. 'failed:' .. queue or p .. 'done', id)
  call('DEL', p .. 'job:' .. id, p .. 'state:' .. id, p .. 'history:' .. id)
end

local function finish_ending()
  call_many('ZADD', p .. 'done', ended_ids)
  for status, counts in pairs(ended_counts) do
    for queue, by in pairs(counts) do
      local field = status .. ':' .. queue
      if call('HINCRBY', p .. 'ended', field, by) <= 0 then call('HDEL', p .. 'ended', field) end
    end
  end
end
