-- Who holds a job.
-- include: lease_text, many

local found_leases, NOT_HELD = {}, {}

-- Ask every worker which of these jobs it holds.
local function find_leases(ids)
  if #ids == 0 then return end
  for _, worker in ipairs(call('SMEMBERS', p .. 'holders')) do
    for at, text in ipairs(read_many(running_key(worker), ids, 1, #ids)) do
      if text then found_leases[ids[at]] = { text, worker } end
    end
  end
  for _, id in ipairs(ids) do found_leases[id] = found_leases[id] or NOT_HELD end
end

-- The lease of a running job and who holds it, if anybody does.
local function find_lease(id)
  if not found_leases[id] then find_leases({ id }) end
  return found_leases[id][1], found_leases[id][2]
end
