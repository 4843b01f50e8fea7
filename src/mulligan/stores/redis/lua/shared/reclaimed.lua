-- What a worker learns of a job that it reclaimed.
-- include: base

-- Add to a result: id, lane, text, due or '', counts, trail or '', and worker, region and start of
-- the attempt that was lost.
local function add_reclaimed(result, id, text, counts, lease, holder)
  local at, state = #result, call('HMGET', p .. 'state:' .. id, 'due', 'trail')
  result[at + 1], result[at + 2], result[at + 3] = id, lease.lane, text
  result[at + 4], result[at + 5], result[at + 6] = state[1] or '', counts, state[2] or ''
  result[at + 7], result[at + 8], result[at + 9] = holder, lease.region, lease.started
end
