-- Read all that was counted.
-- KEYS[1]  prefix
-- ARGV     now
-- Result   the sums since ever, and those of each slot that is recent
-- include: base
-- include: slots

local sums = { call('HGETALL', p .. 'counts') }
for _, start in ipairs(recent_slots()) do sums[#sums + 1] = call('HGETALL', slot_key(start)) end
return sums
