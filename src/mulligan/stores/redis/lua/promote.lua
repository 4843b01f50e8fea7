-- End pending jobs that did not start in time, and wake sleepers for what fell due while the one
-- that knew of it was lost.
-- KEYS[1]  prefix
-- ARGV     now, limit
-- Result   how many
-- include: base, memory
-- include: cancel, heads

go_on_when_full()
local late = {}
local found = call('ZRANGEBYSCORE', p .. 'expires', '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for at = 1, #found, 2 do
  local id = found[at]
  late[#late + 1] = { tonumber(found[at + 1]), tonumber(call('ZSCORE', p .. 'order', id) or 0), id }
end
-- A job that awaits several is told of the first that will never arrive: of those that expire at
-- the same time, the first that came.
table.sort(late, function(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)

local count = 0
for _, each in ipairs(late) do
  call('ZREM', p .. 'expires', each[3])
  if cancel(each[3], EXPIRED) then count = count + 1 end
end
finish_join()
finish_end()

if call('EXISTS', p .. 'sleepers') == 1 then
  for _, lane in ipairs(call('SMEMBERS', p .. 'lanes')) do
    local due = first_due_in(lane)
    if due and due <= now then wake_for(lane, due) end
  end
end
return count
