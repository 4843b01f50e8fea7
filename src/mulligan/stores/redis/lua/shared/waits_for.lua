-- What a pending job waits for.
-- include: job_text, line_tag

-- The state of a job, and with it the limit that its line waits for, if it stands in one.
local function read_whole_state(id, is_pending)
  local cells = call('HGETALL', p .. 'state:' .. id)
  if not is_pending then return cells end
  local state = {}
  for at = 1, #cells, 2 do state[cells[at]] = cells[at + 1] end
  local key, limits = state.fairness_key, state.limits
  if not (key or limits) or state.ended or tonumber(state.awaits or 0) > 0 then return cells end
  local lane = locate(id, state.lane, true, true)
  local tag = tag_of(key or '', limits or '')
  local line = lane and call('HGET', p .. 'lines:' .. lane, tag)
  local waits_for = line and match(line, '^[^\t]*\t([^\t]+)')
  if waits_for then cells[#cells + 1], cells[#cells + 2] = 'waits_for', waits_for end
  return cells
end
