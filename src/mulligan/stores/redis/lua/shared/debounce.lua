-- Debouncing: a job that waits to start takes over the call of a later one of its key.
-- include: unique, new_jobs, job_text, marks, leave_lane, times

-- Give the job, which holds its key, the task and body `said`, and put it off by the delay again, but
-- no longer than it said at first. One that is held keeps its turn. A job that is not debounced stays
-- as it is.
local function debounce(id, delay, said)
  local key = p .. 'state:' .. id
  local job = call('HMGET', key, 'debounce_until', 'held', 'lane', 'due', 'sequence', 'marks')
  local last = tonumber(job[1] or nil)
  if not last then return end
  write_jobs()  -- it may be one of them
  local lane, _, sequence = locate(id, job[3], job[4], job[5])
  if not lane then return end
  local text = call('HGET', p .. 'jobs', id)
  call('HSET', p .. 'jobs', id, match(text, '^%d+\t[^\t]*\t[^\t]*\t') .. said)
  if job[2] then return end
  local before, due = member_of(sequence, id), math.min(rounded(now + delay), last)
  local delayed_key = p .. 'delayed:' .. queue_of(lane)
  leave_lane(before, lane)
  if has(job[6], 'd') then call('ZREM', delayed_key, before) end
  sequence = next_sequence()
  local member = member_of(sequence, id)
  insert_by_due(member, lane, due)
  if due > now then call('ZADD', delayed_key, due, member) end
  call('HSET', key, 'due', number_text(due), 'sequence', sequence,
    'marks', with_delayed(job[6], due > now))
end
