-- Debouncing: a job that waits to start takes over the call of a later one of its key.
-- include: unique, new_jobs, job_text, marks, leave_lane, times

-- Give the job, which holds its key, the task and body `said`, and put it off by the delay again, but
-- no longer than it said at first. A job that is not debounced stays as it is.
local function debounce(id, delay, said)
  local key = p .. 'state:' .. id
  local job = call('HMGET', key, 'debounce_until', 'lane', 'due', 'sequence', 'marks',
    'fairness_key', 'limits')
  local last = tonumber(job[1] or nil)
  if not last then return end
  write_jobs()  -- it may be one of them
  local lane, _, sequence = locate(id, job[2], job[3], job[4])
  if not lane then return end
  local text = call('HGET', p .. 'jobs', id)
  call('HSET', p .. 'jobs', id, match(text, '^%d+\t[^\t]*\t[^\t]*\t') .. said)
  local due, delayed_key = math.min(rounded(now + delay), last), p .. 'delayed:' .. queue_of(lane)
  leave_lane(id, lane, sequence, job[6], job[7])
  if has(job[5], 'd') then call('ZREM', delayed_key, member_of(sequence, id)) end
  sequence = next_sequence()
  insert(id, lane, due, sequence, job[6], job[7])
  if due > now then call('ZADD', delayed_key, due, member_of(sequence, id)) end
  call('HSET', key, 'due', number_text(due), 'sequence', sequence,
    'marks', with_delayed(job[5], due > now))
end
