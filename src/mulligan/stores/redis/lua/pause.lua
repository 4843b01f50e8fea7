-- Stop or resume claims from a queue.
-- KEYS[1]  prefix
-- ARGV     now, queue, 1 to pause or 0 to resume
-- Result   1 if that changed anything
-- include: base, memory
-- include: epoch

go_on_when_full()
local changed = call(ARGV[3] == '1' and 'SADD' or 'SREM', p .. 'paused', ARGV[2])
if changed == 1 then change_facts() end
return changed
