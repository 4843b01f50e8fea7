-- End pending jobs that did not start in time, and wake sleepers for what fell due while the one
-- that knew of it was lost.
-- KEYS[1]  prefix
-- ARGV     now, limit
-- Result   how many
-- include: cancelling, heads

go_on_when_full()
local late = call('ZRANGEBYSCORE', p .. 'expires', '-inf', now, 'LIMIT', 0, ARGV[2])
local count = 0
for _, id in ipairs(late) do
  call('ZREM', p .. 'expires', id)
  if cancel(id, 'expired before it could start') then count = count + 1 end
end
finish_ending()

if call('EXISTS', p .. 'sleepers') == 1 then
  for _, lane in ipairs(call('SMEMBERS', p .. 'lanes')) do
    local due = first_due_in(lane)
    if due and due <= now then ring_for(lane, due) end
  end
end
return count
