-- Delete jobs that have ended, with their history.
-- KEYS[1]  prefix
-- ARGV     now, ids
-- Result   for each 1, or 0 if it is unknown or has not ended
-- include: cancelling

go_on_when_full()
local result = {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local job = call('HMGET', p .. 'state:' .. id, 'ended', 'lane', 'gather')
  if job[1] then erase(id, job[1], queue_of((whereabouts(id, job[2], true, true)))) end
  if job[1] == 'failed' then miss(job[3], id, 'purged') end
  result[at - 1] = job[1] and 1 or 0
end
finish_ending()
return result
