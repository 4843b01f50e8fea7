-- Keep the leases of a worker.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, what it serves, lease seconds, number of leases
--          shown, their ids, their tokens
-- Result   the facts, the numbers from 0 of the leases that are no longer held; and of those that
--          the worker holds for longer than its lease time and did not show, id and token of each
--          that it claimed, and for each that it reclaimed what shared/reclaimed.lua gives
-- include: base, many, memory
-- include: workers, leases, facts, reclaimed

go_on_when_full()
local worker, lease, count = ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7])
enlist(worker, ARGV[3], ARGV[4], ARGV[5], lease)

local lost, forgotten, reclaimed, shown = {}, {}, {}, {}
for at, text in ipairs(read_many(running_key(worker), ARGV, 8, 7 + count)) do
  if text and sub(text, 1, 16) == ARGV[7 + count + at] then
    shown[ARGV[7 + at]] = true
  else
    lost[#lost + 1] = at - 1
  end
end

local held = call('HGETALL', running_key(worker))
for at = 1, #held, 2 do
  local lease_held, token = read_lease(held[at + 1])
  local id, is_known = held[at], tonumber(lease_held.leased) + lease >= now
  if is_known or shown[id] then
    -- The worker knows of it.
  elseif lease_held.is_reclaimed then
    local text = call('HGET', p .. 'jobs', id) or ''
    add_reclaimed(reclaimed, id, text, lease_held.counts, lease_held, worker)
  else
    forgotten[#forgotten + 1] = id
    forgotten[#forgotten + 1] = token
  end
end
return { facts(), lost, forgotten, reclaimed }
