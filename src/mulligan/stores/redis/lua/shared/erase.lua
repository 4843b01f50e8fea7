-- Erasing jobs that have ended.
-- include: ended, lanes, job_text, many, end

-- How a job ended and the queue that it ended in, from its lease in `done` or from its state; nil
-- if it has not ended.
local function ending_of(id, lease)
  if lease then return 'done', queue_of(lease.lane) end
  local state = call('HMGET', p .. 'state:' .. id, 'ended', 'lane')
  if state[1] then return state[1], queue_of((locate(id, state[2], true, true))) end
end

-- Forget what is kept of an ended job beside its text and its lease, and the key that it may have.
local function erase_state(id, status, queue)
  local job = call('HMGET', p .. 'state:' .. id, 'unique_until', 'unique_key', 'unique_in')
  if job[1] then free_unique(id, queue, job[2], job[3]) end
  if status == 'failed' then
    call('ZREM', p .. 'failed:' .. queue, id)
  else
    call('ZREM', p .. 'kept', id)
  end
  call('DEL', p .. 'state:' .. id, p .. 'history:' .. id, p .. 'arrived:' .. id)
end

-- Forget the texts and leases of ended jobs. The list in the order in which they ended drops them
-- when their time has come.
local function erase(ids)
  call_many('HDEL', p .. 'jobs', ids)
  call_many('HDEL', p .. 'done', ids)
  call_many('ZREM', p .. 'order', ids)
  if call('EXISTS', p .. 'recorded') == 1 then
    for _, id in ipairs(ids) do
      if call('SREM', p .. 'recorded', id) == 1 then
        call('DEL', p .. 'records:' .. id, p .. 'log:' .. id)
      end
    end
  end
end
