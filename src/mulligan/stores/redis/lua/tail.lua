-- Find the last job waiting in a lane of those that were due by then.
-- KEYS[1]  prefix
-- ARGV     now, lane, due
-- Result   its id, or false if there is none among the newest of the lane
-- include: base
-- include: lanes, members, job_text

local MOST, PIECE = 1000, 100
local lane, by = ARGV[2], tonumber(ARGV[3])

-- When a job in the list is due; nil if it is unknown.
local function due_of(member)
  local id = id_of(member)
  local state_due = sub(member, 17, 17) ~= ':' and call('HGET', p .. 'state:' .. id, 'due')
  local _, due = locate(id, true, state_due, true)
  return due
end

-- Walk the list back from its end: what is due latest is there.
local function last_of_list()
  for newest = 1, MOST, PIECE do
    local members = call('LRANGE', p .. lane, -(newest + PIECE - 1), -newest)
    for at = #members, 1, -1 do
      local member = members[at]
      local due = due_of(member)
      if due and due <= by and not call('ZSCORE', p .. 'gone:' .. lane, sub(member, 1, 16)) then
        return member, due
      end
    end
    if #members < PIECE then return nil end
  end
end

local function last_of_sorted(key)
  local found = call('ZREVRANGEBYSCORE', key, ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[1], tonumber(found[2])
end

local last, due = last_of_sorted(sorted_key(lane))

-- The later of this job and the last so far.
local function compare(member, its_due)
  local is_later = member and (not last or its_due > due
    or (its_due == due and sequence_of(member) > sequence_of(last)))
  if is_later then last, due = member, its_due end
end

compare(last_of_sorted(p .. 'lined:' .. lane))
if has_list(lane) then compare(last_of_list()) end
return last and id_of(last)
