-- Keep the leases of a worker.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, what it serves, lease seconds, number of leases
--          shown, their ids, their tokens
-- Result   the facts, the numbers from 0 of the leases that are no longer held, and id and token of
--          each lease that the worker holds for longer than its lease time and did not show
-- include: workers, leases, facts

go_on_when_full()
local worker, lease, count = ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7])
enlist(worker, ARGV[3], ARGV[4], ARGV[5], lease)

local lost, forgotten, shown = {}, {}, {}
for at, text in ipairs(read_many(p .. 'running', ARGV, 8, 7 + count)) do
  local held = text and read_lease(text)
  if held and held.worker == worker and held.token == tonumber(ARGV[7 + count + at]) then
    shown[ARGV[7 + at]] = true
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
