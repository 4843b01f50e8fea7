-- Replace a breaker if it is still as it was.
-- KEYS[1]  prefix
-- ARGV     now, place, and what it was: open or closed, since, probes; what it shall be: open or
--          closed, probes
-- Result   1, or 0 if it is no longer as it was
-- include: waking

go_on_when_full()
local place, wanted = ARGV[2], ARGV[6]
local stored = call('HGET', p .. 'breakers', place) or 'closed 0 0'
local is, since, probes = match(stored, '^(%a+) (%S+) (%d+)$')
if is ~= ARGV[3] or tonumber(since) ~= tonumber(ARGV[4]) or probes ~= ARGV[5] then return 0 end
local turned = is ~= wanted
call('HSET', p .. 'breakers', place, wanted .. ' ' .. (turned and stamp or since) .. ' ' .. ARGV[7])
if turned then change() end
return 1
