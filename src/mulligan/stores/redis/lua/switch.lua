-- Replace a breaker if it is still as it was.
-- KEYS[1]  prefix
-- ARGV     now, queue and region; what it was: open or closed, since, probes, probed_at; what it
--          shall be: open or closed, probes, probed_at; 1 if plans change with it
-- Result   1, or 0 if it is no longer as it was
-- include: base, memory
-- include: epoch

go_on_when_full()
local name, wanted = ARGV[2], ARGV[7]
local stored = call('HGET', p .. 'breakers', name) or 'closed 0 0 0'
local is, since, probes, probed_at = match(stored, '^(%a+) (%S+) (%S+) (%S+)$')
if is ~= ARGV[3] or tonumber(since) ~= tonumber(ARGV[4]) or probes ~= ARGV[5]
  or tonumber(probed_at) ~= tonumber(ARGV[6]) then return 0 end
if is ~= wanted then since = stamp end
call('HSET', p .. 'breakers', name, table.concat({ wanted, since, ARGV[8], ARGV[9] }, ' '))
if ARGV[10] == '1' then change_facts() end
return 1
