-- Workers that left, or died long ago.
-- include: served_queues

local function dismiss(worker)
  local key = p .. 'worker:' .. worker
  local serves = call('HGET', key, 'serves')
  if serves then stop_serving(worker, serves) end
  call('ZREM', p .. 'workers', worker)
  call('DEL', key)
end
