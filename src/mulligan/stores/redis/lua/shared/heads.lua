-- The head of a lane outside of a claim.
-- include: lanes, members, job_text, lines

local function earlier(one, other)
  if one and other then return math.min(one, other) end
  return one or other
end

local function first_of_list(lane)
  local gone, at = p .. 'gone:' .. lane, 0
  while true do
    local member = call('LINDEX', p .. lane, at)
    if not member then return nil end
    if not call('ZSCORE', gone, sub(member, 1, 16)) then
      local id = id_of(member)
      local _, due = locate(id, true, call('HGET', p .. 'state:' .. id, 'due'), true)
      return due or now -- one that cannot be read is claimed, and ends as invalid
    end
    at = at + 1
  end
end

-- When the first job that stands in the lane itself is due; nil if there is none.
local function own_due_in(lane)
  local due = tonumber(call('ZRANGE', sorted_key(lane), 0, 0, 'WITHSCORES')[2])
  return has_list(lane) and earlier(due, first_of_list(lane)) or due
end

-- When a job of the lane or of its lines could start; nil if none could by itself.
local function first_due_in(lane)
  local due = own_due_in(lane)
  if call('EXISTS', p .. 'lines:' .. lane, p .. 'keys:' .. lane) == 0 then return due end
  local at = lines().due_of(lane)
  return earlier(due, at < math.huge and at or nil)
end
