-- Ending a pending or running job from outside.
-- include: ending, leases

-- Take a pending job out of its lane. One that stands in a line is only noted as gone: taking it
-- out would mean a search through the line, and claims pass over it.
local function leave_lane(member, lane, queue, marks)
  if call('ZREM', sorted_key(lane), member) == 0 and has_line(lane) then
    local gone = p .. 'gone:' .. lane
    call('ZADD', gone, sequence_of(member), sub(member, 1, 16))
    if call('ZCARD', gone) == call('LLEN', p .. lane) then call('UNLINK', gone, p .. lane) end
  end
  if has(marks, 'd') then call('ZREM', p .. 'delayed:' .. queue, member) end
end

-- Cancel the job; false if it is unknown or has ended.
local function cancel(id, reason)
  local key = p .. 'state:' .. id
  local job = call('HMGET', key, 'lane', 'ended', 'sequence', 'marks', 'counts', 'unique_key',
    'concurrency_key', 'concurrency_limit', 'held', 'permits', 'committed')
  local lane, _, place = whereabouts(id, job[1], true, job[3])
  local marks = job[4]
  if not lane or job[2] then return false end
  local queue, counts = queue_of(lane), job[5] or nil
  local committed = job[11] or (read_counts(counts))
  local text = call('HGET', p .. 'running', id)
  if text then
    local lease = read_lease(text)
    counts = lease.counts
    call('HDEL', p .. 'running', id)
    call('SREM', p .. 'running:' .. lease.worker, id)
    call('HSET', key, 'ran', lease.ran)
    if lease.is_retry then call('HSET', key, 'last_retry_at', lease.started) end
  else
    local member = member_of(place, id)
    if job[9] then
      unhold(member, lane, job[7], job[8] or '1')
      if has(marks, 'd') then call('ZREM', p .. 'delayed:' .. queue, member) end
    else
      leave_lane(member, lane, queue, marks)
    end
    if has(marks, 'e') then call('ZREM', p .. 'expires', id) end
  end
  local _, later = next_counts(counts)
  call('HSET', key, 'ended', 'cancelled', 'ended_at', stamp, 'cancel_reason', reason,
    'counts', later, 'committed', committed)
  list_ended(id, 'cancelled', queue)
  free_unique(id, queue, job[6])
  release(id, job[10], job[7])
  return true
end
