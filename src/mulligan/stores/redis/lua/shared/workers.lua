-- Workers: who is alive, and until when without another beat. Those of one region that serve the
-- same queues are kept together, under the name of the region and the queues.
-- include: base, waking

local function stop_serving(worker, serves)
  local key = p .. 'serving:' .. serves
  call('ZREM', key, worker)
  if call('EXISTS', key) == 0 then call('SREM', p .. 'serving', serves) end
end

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
  if call('SADD', p .. 'regions', region) == 1 then change() end
end

-- A worker that claims is alive, even before its first beat or after a pause.
local function keep(worker, about, region, serves, lease)
  if is_live(worker) then return end
  go_on_when_full()
  enlist(worker, about, region, serves, lease, stamp)
end

-- Forget a worker that left, or died long ago.
local function dismiss(worker)
  local key = p .. 'worker:' .. worker
  local serves = call('HGET', key, 'serves')
  if serves then stop_serving(worker, serves) end
  call('ZREM', p .. 'workers', worker)
  call('DEL', key)
end
