-- Cancelling a pending or running job.
-- include: find_leases, leases, tokens, job_text, end, permits, gather, marks, leave_lane, arrive, last_failure

-- Take a pending job from where it waits: for others to arrive, or in its lane.
local function stop_waiting(id, lane, job)
  local member, queue = member_of(job.sequence, id), queue_of(lane)
  if tonumber(job.awaits or 0) > 0 then
    count_gathering(queue, -1)
  else
    leave_lane(id, lane, job.sequence, job.fairness_key, job.limits)
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
  'unique_in', 'fairness_key', 'limits', 'permits', 'awaits', 'gather', 'keep', 'gather_index' }
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
  local lease = text and read_lease(text)
  if lease then
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
  if lease then release(id, job.permits, lease.limits) end
  miss(job.gather, id, job.gather_index, reason, match(counts, '^%d+ (%d+)') + (text and 1 or 0))
  return true
end

-- A cancelled job that is awaited arrives as a failure, or cancels the one that awaits its result.
miss = function(gather, id, index, reason, attempts)
  local job = gather and call('HMGET', p .. 'state:' .. gather, 'awaits', 'return_exceptions')
  if not job or tonumber(job[1] or 0) == 0 then return end
  if job[2] then
    local kind = reason == EXPIRED and 'Expired' or 'Cancelled'
    arrive(gather, index, failure_text(id, kind, reason, attempts), 'cancelled')
  else
    cancel(gather, 'job ' .. id .. ', which it awaits, was cancelled')
  end
end

-- The same for a failed job that is purged: it cannot be replayed any more.
local function miss_purged(gather, id, index, failure, retries)
  local job = call('HMGET', p .. 'state:' .. gather, 'awaits', 'return_exceptions')
  if tonumber(job[1] or 0) == 0 then return end
  if job[2] then
    local told = failure ~= '' and cjson.decode(match(failure, '^[^ ]* ([^\n]*)'))
    local reason = told and told.type .. ': ' .. told.message or ''
    arrive(gather, index, failure_text(id, 'Purged', reason, retries + 1), 'failed')
  else
    cancel(gather, 'job ' .. id .. ', which it awaits, was purged')
  end
end
