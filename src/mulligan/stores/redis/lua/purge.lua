-- Delete jobs that have ended, with their history.
-- KEYS[1]  prefix
-- ARGV     now, ids
-- Result   for each 1, or 0 if it is unknown or has not ended
-- include: base, many, memory
-- include: cancel, erase

go_on_when_full()
local result = {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local text = call('HGET', p .. 'done', id)
  local status, queue = ending_of(id, text and read_common(text))
  if status then
    local job = status == 'failed'
      and call('HMGET', p .. 'state:' .. id, 'gather', 'gather_index', 'counts')
    local gather = job and job[1]
    local failure = gather and last_failure(id)
    erase_state(id, status, queue)
    erase({ id })
    count_ended(status, queue, -1)
    if gather then
      miss_purged(gather, id, job[2], failure, match(job[3] or NO_COUNTS, '^%d+ (%d+)'))
    end
  end
  result[at - 1] = status and 1 or 0
end
finish_join()
finish_end()
return result
