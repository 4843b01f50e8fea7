-- End jobs that their worker has claimed and cannot read, as dead letters.
-- KEYS[1]  prefix
-- ARGV     now, worker, and for each job its id and what went wrong
-- Result   how many
-- include: base, memory
-- include: fail, end, lanes, leases, permits

go_on_when_full()
local worker, count = ARGV[2], 0
for at = 3, #ARGV, 2 do
  local id = ARGV[at]
  local text = call('HGET', running_key(worker), id)
  if text then
    local key, lease = p .. 'state:' .. id, read_lease(text)
    local job = call('HMGET', key, 'unique_key', 'unique_in', 'permits')
    local queue = queue_of(lease.lane)
    call('HDEL', running_key(worker), id)
    add_attempt(id, ARGV[at + 1])
    call('HSET', key, 'ended', 'failed', 'ended_at', stamp, 'lane', lease.lane, 'ran', lease.ran)
    list_failed(id, queue, call('ZSCORE', p .. 'order', id))
    free_unique(id, queue, job[1], job[2])
    release(id, job[3], lease.limits)
    count = count + 1
  end
end
finish_lines()
finish_end()
return count
