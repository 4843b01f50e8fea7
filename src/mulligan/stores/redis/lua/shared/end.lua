-- Ending a job.
-- include: ended, unique

-- List a job that is done or cancelled; the ids of one script are one entry of the list.
local function list_ended(id, status, queue)
  count_ended(status, queue, 1)
  ended_count = ended_count + 1
  ended_ids[ended_count] = id
end

-- Give up the unique key of a job that ends.
local function free_unique(id, queue, key, unique_in)
  local keys = key and unique_keys(queue, unique_in)
  if keys and call('HGET', keys, key) == id then call('HDEL', keys, key) end
end
