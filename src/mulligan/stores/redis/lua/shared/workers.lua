-- Workers: who is alive, and until when without another beat.
-- include: base, waking

-- Note that the worker is alive; a region's first worker ever changes the facts.
local function enlist(worker, about, region, lease, joined)
  local lives_until = now + lease
  call('ZADD', p .. 'workers', lives_until, worker)
  call('ZADD', p .. 'region:' .. region, lives_until, worker)
  call('HSET', p .. 'worker:' .. worker, 'about', about, 'region', region, 'beat_at', stamp,
    'joined_at', joined)
  if call('SADD', p .. 'regions', region) == 1 then change() end
end

-- A worker that claims is alive, even before its first beat or after a pause.
local function keep(worker, about, region, lease)
  if not is_live(worker) then enlist(worker, about, region, lease, stamp) end
end
