-- What a worker learns of a job that it reclaimed.
-- include: claim_fields

-- Add to a result: id, lane, text, counts, due with the claim fields, and worker, region and start
-- of the attempt that was lost.
local function add_reclaimed(result, id, text, counts, lease, holder)
  local at, state = #result, call('HMGET', p .. 'state:' .. id, 'due', unpack(CLAIM_FIELDS))
  result[at + 1], result[at + 2], result[at + 3], result[at + 4] = id, lease.lane, text, counts
  result[at + 5], result[at + 6], result[at + 7], result[at + 8] = state, holder, lease.region,
    lease.started
end
