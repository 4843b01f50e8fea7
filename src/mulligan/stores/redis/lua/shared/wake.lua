-- Waking one worker.
-- include: base

-- The worker whose sleep this script has ended.
local awake

-- A worker that was woken sleeps no more, but stays in `sleepers` until it claims: when it leaves
-- or fills up instead, another sleeper is woken.
local function wake(worker)
  call('LPUSH', p .. 'wake:' .. worker, stamp)
end
