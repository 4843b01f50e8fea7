-- Cancelling a pending or running job.
-- include: find_leases, leases, tokens, job_text, end, permits, gather, marks, leave_lane

-- Take a pending job from where it waits: for others to arrive, for its key, or in its lane.
local function stop_waiting(id, lane, job)
  local member, queue = member_of(job.sequence, id), queue_of(lane)
  if tonumber(job.awaits or 0) > 0 then
    count_gathering(queue, -1)
  elseif job.held then
    unhold(member, lane, job.concurrency_key, job.concurrency_limit or '1')
  else
    leave_lane(member, lane)
  end
  if has(job.marks, 'd') then call('ZREM', p .. 'delayed:' .. queue, member) end
  if has(job.marks, 'e') then call('ZREM', p .. 'expires', id) end
end

local function stop_running(id, lease, worker)
  local key = p .. 'state:' .. id
  call('HDEL', running_key(worker), id)
  call('HSET', key, 'ran', lease.ran)
  if lease.is_retry then call('HSET', key, 'last_retry_at', lease.started) end
end

local FIELDS = { 'lane', 'sequence', 'ended', 'marks', 'counts', 'committed', 'unique_key',
  'unique_in', 'concurrency_key', 'concurrency_limit', 'held', 'permits', 'awaits', 'gather', 'keep' }
-- Why a job that did not start in time is cancelled. As in core/job.py.
local EXPIRED = 'expired before it could start'
local miss

-- Cancel the job, and with it the one that awaits it; false if it is unknown or has ended.
local function cancel(id, reason)
  local key, job = p .. 'state:' .. id, {}
  for at, value in ipairs(call('HMGET', key, unpack(FIELDS))) do job[FIELDS[at]] = value or nil end
  local lane, _, sequence = locate(id, job.lane, true, job.sequence)
  if not lane or job.ended then return false end
  job.sequence = sequence
  local queue, counts = queue_of(lane), job.counts or NO_COUNTS
  local committed = job.committed or match(counts, '^%d+')
  local text, worker = find_lease(id)
  if text then
    local lease = read_lease(text)
    counts = lease.counts
    stop_running(id, lease, worker)
  elseif call('HEXISTS', p .. 'done', id) == 1 then
    return false
  else
    stop_waiting(id, lane, job)
  end
  call('HSET', key, 'ended', 'cancelled', 'ended_at', stamp, 'cancel_reason', reason,
    'committed', committed, 'counts', (next_counts(counts)))
  list_ended(id, 'cancelled', queue, job.keep)
  free_unique(id, queue, job.unique_key, job.unique_in)
  -- What awaits others has no room to leave.
  if tonumber(job.awaits or 0) == 0 then release(id, job.permits, job.concurrency_key) end
  miss(job.gather, id, 'cancelled')
  return true
end

-- A job that will never arrive cancels the one that awaits it, if there is one.
miss = function(gather, id, how)
  if gather and tonumber(call('HGET', p .. 'state:' .. gather, 'awaits') or 0) > 0 then
    cancel(gather, 'job ' .. id .. ', which it awaits, was ' .. how)
  end
end
