-- The head of a lane outside of a claim.
-- include: lanes, members, job_text

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

-- When the first job of the lane that no key holds back is due; nil if there is none.
local function first_due_in(lane)
  local due = tonumber(call('ZRANGE', sorted_key(lane), 0, 0, 'WITHSCORES')[2])
  return has_list(lane) and earlier(due, first_of_list(lane)) or due
end
