-- Ending jobs: done, failed or cancelled, with the indexes and counts that go with it.
-- include: permits, unique

local ended_counts = { done = {}, failed = {}, cancelled = {} }
local past, past_count = {}, 0

local function count_ended(status, queue, by)
  local counts = ended_counts[status]
  counts[queue] = (counts[queue] or 0) + by
end

-- Add a failed attempt to the history of a job.
local function remember(id, failure)
  local key = p .. 'history:' .. id
  if call('RPUSH', key, stamp .. ' ' .. failure) > 50 then call('LTRIM', key, -50, -1) end
end

-- Dead letters are listed by queue, in the order in which they came.
local function list_failed(id, queue, place)
  count_ended('failed', queue, 1)
  call('ZADD', p .. 'failed:' .. queue, place, id)
end

-- All others are listed in the order in which they ended, those of one script in one entry.
local function list_past(id, status, queue)
  count_ended(status, queue, 1)
  past_count = past_count + 1
  past[past_count] = id
end

-- How a job ended and the queue that it ended in, from its lease in `done` or from its state; nil
-- if it has not ended.
local function ending_of(id, lease)
  if lease then return 'done', queue_of(lease.lane) end
  local state = call('HMGET', p .. 'state:' .. id, 'ended', 'lane')
  if state[1] then return state[1], queue_of((whereabouts(id, state[2], true, true))) end
end

-- Forget what is kept of an ended job beside its text and its lease.
local function erase_state(id, status, queue)
  if status == 'failed' then call('ZREM', p .. 'failed:' .. queue, id) end
  call('DEL', p .. 'state:' .. id, p .. 'history:' .. id, p .. 'arrived:' .. id)
end

-- Forget the texts and leases of ended jobs. What lists them in the order in which they ended drops
-- them when their time has come.
local function erase(ids)
  call_many('HDEL', p .. 'jobs', ids)
  call_many('HDEL', p .. 'done', ids)
  call_many('ZREM', p .. 'order', ids)
end

local function finish_ending()
  if past_count > 0 then call('RPUSH', p .. 'past', stamp .. '\t' .. table.concat(past, '\t')) end
  for status, counts in pairs(ended_counts) do
    for queue, by in pairs(counts) do
      local field = status .. ':' .. queue
      if call('HINCRBY', p .. 'ended', field, by) <= 0 then call('HDEL', p .. 'ended', field) end
    end
  end
end
