-- Keep the leases of a worker.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, lease seconds, number of leases shown, their ids,
--          their tokens
-- Result   the facts, the numbers from 0 of the leases that are no longer held, and id and token of
--          each lease that the worker holds for longer than its lease time and did not show
-- include: workers, leases, facts

go_on_when_full()
local worker, count = ARGV[2], tonumber(ARGV[6])
local joined = call('HGET', p .. 'worker:' .. worker, 'joined_at') or stamp
enlist(worker, ARGV[3], ARGV[4], tonumber(ARGV[5]), joined)

local lease = tonumber(ARGV[5])
local lost, forgotten, shown = {}, {}, {}
for at, text in ipairs(read_many(p .. 'running', ARGV, 7, 6 + count)) do
  local held = text and read_lease(text)
  if held and held.worker == worker and held.token == tonumber(ARGV[6 + count + at]) then
    shown[ARGV[6 + at]] = true
  else
    lost[#lost + 1] = at - 1
  end
end

for _, id in ipairs(call('SMEMBERS', p .. 'running:' .. worker)) do
  local text = not shown[id] and call('HGET', p .. 'running', id)
  if text then
    local held = read_lease(text)
    if tonumber(held.leased) + lease < now then
      forgotten[#forgotten + 1] = id
      forgotten[#forgotten + 1] = held.token
    end
  end
end
return { facts(), lost, forgotten }
