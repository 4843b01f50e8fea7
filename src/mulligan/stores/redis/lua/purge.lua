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
    local gather = status == 'failed' and call('HGET', p .. 'state:' .. id, 'gather')
    erase_state(id, status, queue)
    erase({ id })
    count_ended(status, queue, -1)
    if gather then miss(gather, id, 'purged') end
  end
  result[at - 1] = status and 1 or 0
end
finish_end()
return result
