-- The head of a lane outside of a claim.
-- include: lanes

local function earlier(one, other)
  if one and other then return math.min(one, other) end
  return one or other
end

local function first_of_line(lane)
  local gone, at = p .. 'gone:' .. lane, 0
  while true do
    local member = call('LINDEX', p .. lane, at)
    if not member then return nil end
    if not call('ZSCORE', gone, sub(member, 1, 16)) then
      local id = id_of(member)
      local _, due = whereabouts(id, true, call('HGET', p .. 'state:' .. id, 'due'), true)
      return due or now -- of one that cannot be read: it is claimed and set aside
    end
    at = at + 1
  end
end

-- When the first job of the lane that no key holds back is due; nil if there is none.
local function first_due_in(lane)
  local due = tonumber(call('ZRANGE', sorted_key(lane), 0, 0, 'WITHSCORES')[2])
  return has_line(lane) and earlier(due, first_of_line(lane)) or due
end

-- The worker waits no longer: what stands in the lanes that it waited for is for another sleeper.
local function pass_on(worker)
  local shape = get_up(worker)
  local known = shape and call('GET', p .. 'shape:' .. shape)
  if not known then return end
  for _, lane in ipairs(cjson.decode(known).lanes) do
    local due = first_due_in(lane[1])
    if due then ring_for(lane[1], due) end
  end
end
