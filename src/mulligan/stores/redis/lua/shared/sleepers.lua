-- Workers that sleep no longer.
-- include: wake

-- The worker is awake, and what woke it is forgotten; the shape it slept in, if any. Its entry in
-- `sleepers` stays, for the caller to change. Begins with a write that a full memory lets through.
local function end_sleep(worker)
  call('DEL', p .. 'wake:' .. worker)
  awake = worker
  local shape = call('HGET', p .. 'sleepers', worker)
  if shape then call('ZREM', p .. 'sleeping:' .. shape, worker) end
  return shape
end

-- Forget that the worker sleeps; the shape it slept in, if any.
local function forget_sleeper(worker)
  local shape = end_sleep(worker)
  if shape then call('HDEL', p .. 'sleepers', worker) end
  return shape
end
