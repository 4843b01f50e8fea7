-- Lanes. Fresh lanes are lists in order of arrival; whatever is ordered by its due time instead
-- (delayed, returned, freed by a key) is in a sorted set beside the list. Retry lanes are such
-- sorted sets alone. The head of a lane is the earlier of the two heads.
-- include: base

local sorted_keys, queues = {}, {}

local function sorted_key(lane)
  local key = sorted_keys[lane]
  if not key then
    local retries = find(lane, '^retry:') or find(lane, '^urgent%-retry:')
    key = p .. (retries and '' or 'due:') .. lane
    sorted_keys[lane] = key
  end
  return key
end

local function has_list(lane)
  return sorted_key(lane) ~= p .. lane
end

-- The queue's name as keys spell it.
local function queue_of(lane)
  local queue = queues[lane]
  if not queue then
    queue = match(lane, '^[^:]*:([^:]*):')
    queues[lane] = queue
  end
  return queue
end
