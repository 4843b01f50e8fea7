-- Replace the record of a schedule, withdraw ticks and place others.
-- KEYS[1]  prefix
-- ARGV     now, name, the record before and the one after, each '' for none, 1 if it is an edit, how
--          many ticks to withdraw, their ids, and the jobs to place in runs as shared/add.lua reads
--          them
-- Result   1 if it was done, or is so already; 0 if the record is another one
-- include: base, many, memory, times
-- include: wakeup, lanes, sequences, members, leases
-- include: add, cancel, erase, epoch

local name, before, after, withdrawn = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local record = call('HGET', p .. 'schedules', name) or ''
if record ~= before then return record == after and 1 or 0 end
stop_when_full()
if after == '' then
  call('HDEL', p .. 'schedules', name)
else
  call('HSET', p .. 'schedules', name, after)
end

-- Delete a tick that is pending and has never started.
for at = 7, 6 + withdrawn do
  local id = ARGV[at]
  local counts = call('HGET', p .. 'state:' .. id, 'counts') or NO_COUNTS
  if not find_lease(id) and never_started(counts) and cancel(id, 'its schedule was changed') then
    local status, queue = ending_of(id)
    erase_state(id, status, queue)
    erase({ id })
    count_ended(status, queue, -1)
  end
end

add_runs(7 + withdrawn, #ARGV, function() end, false)
finish_add()
finish_end()
if ARGV[5] == '1' then change_facts() end
return 1
