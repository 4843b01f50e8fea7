-- Read the statuses of jobs.
-- KEYS[1]  prefix
-- ARGV     now, ids
-- Result   for each its status, or '' if it is unknown
-- include: base
-- include: find_leases

local ids = { unpack(ARGV, 2) }
find_leases(ids)

local function status_of(id)
  if call('HEXISTS', p .. 'jobs', id) == 0 then return '' end
  if find_lease(id) then return 'processing' end
  if call('HEXISTS', p .. 'done', id) == 1 then return 'done' end
  return call('HGET', p .. 'state:' .. id, 'ended') or 'pending'
end

local result = {}
for at, id in ipairs(ids) do result[at] = status_of(id) end
return result
