-- Keep the leases of a worker.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, lease seconds, number of leases shown, their ids,
--          their tokens
-- Result   the facts, the numbers from 0 of the leases that are no longer held, and id and token of
--          each lease that the worker holds for longer than its lease time and did not show
-- include: workers, lanes, leases, facts

go_on_when_full()
local worker, count = ARGV[2], tonumber(ARGV[6])
local joined = call('HGET', p .. 'worker:' .. worker, 'joined_at') or stamp
enlist(worker, ARGV[3], ARGV[4], tonumber(ARGV[5]), joined)

local lease = tonumber(ARGV[5])
local lost, forgotten, shown = {}, {}, {}
for at, text in ipairs(read_many(p .. 'running', ARGV, 7, 6 + count)) do
  local token, holder
  if text then
    local _, part
    token, _, _, _, part = read_lease(text)
    holder = part.worker
  end
  if holder ~= worker or token ~= tonumber(ARGV[6 + count + at]) then
    lost[#lost + 1] = at - 1
  else
    shown[ARGV[6 + at]] = true
  end
end

local old = call('ZRANGEBYSCORE', p .. 'running:' .. worker, '-inf', now - lease)
for _, member in ipairs(old) do
  local id = id_of(member)
  local text = not shown[id] and call('HGET', p .. 'running', id)
  if text then
    local token, _, _, _, part = read_lease(text)
    if tonumber(part.leased) + lease < now then
      forgotten[#forgotten + 1] = id
      forgotten[#forgotten + 1] = token
    end
  end
end
return { facts(), lost, forgotten }
