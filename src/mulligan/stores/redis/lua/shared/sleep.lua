-- Remembering that a worker waits.
-- include: sleepers

-- Make a shape known to the lanes and limits that it waits for, if it is not yet.
local function learn_shape(shape, waits)
  if call('SADD', p .. 'shapes', shape) == 0 then return end
  local known = cjson.decode(waits)
  call('SET', p .. 'shape:' .. shape, waits)
  for _, lane in ipairs(known.lanes) do call('HSET', p .. 'waiting:' .. lane[1], shape, lane[2]) end
  for _, key in ipairs(known.limits) do call('SADD', p .. 'waiting-permit:' .. key, shape) end
  for _, share in ipairs(known.shares) do
    call('SADD', p .. 'waiting-share:' .. share[1], shape .. '\t' .. share[2])
  end
end

-- Remember that the worker waits for what is in the shape, and when it wakes by itself, given the
-- shape that it slept in until now.
local function begin_sleep(worker, shape, waits, wakes, before)
  if shape ~= before then
    learn_shape(shape, waits)
    call('HSET', p .. 'sleepers', worker, shape)
  end
  call('ZADD', p .. 'sleeping:' .. shape, wakes, worker)
end
