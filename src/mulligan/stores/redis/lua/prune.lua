-- Delete done and cancelled jobs that ended long ago, workers that died long ago, and notes and
-- counts that are past their time.
-- KEYS[1]  prefix
-- ARGV     now, seconds to keep jobs, limit, seconds to keep dead workers
-- Result   how many jobs
-- include: ending, workers, counting

go_on_when_full()
local before = '(' .. format('%.17g', now - tonumber(ARGV[2]))
local old = call('ZRANGEBYSCORE', p .. 'done', '-inf', before, 'LIMIT', 0, ARGV[3])
for _, id in ipairs(old) do
  local job = call('HMGET', p .. 'state:' .. id, 'ended', 'lane')
  if job[1] then
    erase(id, job[1], queue_of((whereabouts(id, job[2], true, true))))
  else
    call('ZREM', p .. 'done', id)
  end
end

local dead = now - tonumber(ARGV[4])
for _, worker in ipairs(call('ZRANGEBYSCORE', p .. 'workers', '-inf', dead, 'LIMIT', 0, 100)) do
  dismiss(worker)
  get_up(worker)
end

local notes = call('ZRANGEBYSCORE', p .. 'notes-until', '-inf', now)
call_many('HDEL', p .. 'notes', notes)
call_many('ZREM', p .. 'notes-until', notes)
call('ZREMRANGEBYSCORE', p .. 'counted', '-inf', '(' .. format('%.17g', now - WINDOW))
finish_ending()
return #old
