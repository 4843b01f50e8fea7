-- Workers that are alive, and until when without another beat.
-- include: served_queues, epoch, memory

-- Note that the worker is alive; a region's first worker ever changes the facts.
local function enlist(worker, about, region, serves, lease, joined)
  local key, lives_until = p .. 'worker:' .. worker, now + lease
  local before = call('HMGET', key, 'serves', 'joined_at')
  if before[1] and before[1] ~= serves then stop_serving(worker, before[1]) end
  call('ZADD', p .. 'workers', lives_until, worker)
  call('ZADD', p .. 'serving:' .. serves, lives_until, worker)
  call('SADD', p .. 'serving', serves)
  call('HSET', key, 'about', about, 'serves', serves, 'beat_at', stamp,
    'joined_at', joined or before[2] or stamp)
  if call('SADD', p .. 'regions', region) == 1 then change_facts() end
end
