-- Forget a worker; what it still holds may be seized at once.
-- KEYS[1]  prefix
-- ARGV     now, worker, region
-- Result   1
-- include: heads

go_on_when_full()
local worker = ARGV[2]
local shape = get_up(worker)
call('ZREM', p .. 'workers', worker)
call('ZREM', p .. 'region:' .. ARGV[3], worker)
call('DEL', p .. 'worker:' .. worker)
local known = shape and call('GET', p .. 'shape:' .. shape)
if known then
  for _, lane in ipairs(cjson.decode(known).lanes) do pass_on(lane[1]) end
end
return 1
