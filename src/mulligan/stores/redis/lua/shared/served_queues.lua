-- Workers of one region that serve the same queues are kept together, under the name of the region
-- and the queues.
-- include: base

local function stop_serving(worker, serves)
  local key = p .. 'serving:' .. serves
  call('ZREM', key, worker)
  if call('EXISTS', key) == 0 then call('SREM', p .. 'serving', serves) end
end
