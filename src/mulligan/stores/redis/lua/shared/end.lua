-- Ending a job.
-- include: ended, unique, times

-- List a job that is done or cancelled; the ids of one script are one entry of the list. One that
-- says for how many seconds it is kept is listed by when that is over.
local function list_ended(id, status, queue, keep)
  count_ended(status, queue, 1)
  if keep then
    call('ZADD', p .. 'kept', number_text(now + (tonumber(keep) or 0)), id)
    other_ids[#other_ids + 1] = id
  else
    ended_count = ended_count + 1
    ended_ids[ended_count] = id
  end
end

-- Give up the unique key of a job that ends, or is erased.
local function free_unique(id, queue, key, unique_in)
  local keys = key and unique_keys(queue, unique_in)
  if keys and call('HGET', keys, key) == id then call('HDEL', keys, key) end
end
