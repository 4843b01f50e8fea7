-- Sorted sets as scripts read and change them: read from the first on, in pieces, and written once.
-- include: many

-- The set of this key; `is_empty` says that the server has none.
local function ordered(key, is_empty)
  return { key = key, is_over = is_empty, read = {}, read_at = 1, from = 0, size = 1,
    changes = {}, added = {}, added_at = 1 }
end

-- Read the next piece, each longer than the one before. Whoever wants to know sets `on_read`.
local function read_piece(set)
  set.from, set.read_at = set.from + #set.read / 2, 1
  set.read = call('ZRANGE', set.key, set.from, set.from + set.size - 1, 'WITHSCORES')
  set.is_over = #set.read < 2 * set.size
  set.size = math.max(set.size, math.min(4 * set.size, 32))
  if set.on_read then set.on_read(set.read) end
end

-- The first member and its score; nil if there is none.
local function first_in(set)
  while set.changes[set.read[set.read_at]] ~= nil do set.read_at = set.read_at + 2 end
  while set.read_at > #set.read and not set.is_over do
    read_piece(set)
    while set.changes[set.read[set.read_at]] ~= nil do set.read_at = set.read_at + 2 end
  end
  local added = set.added[set.added_at]
  while added and set.changes[added.member] ~= added do
    set.added_at = set.added_at + 1
    added = set.added[set.added_at]
  end
  local member, score = set.read[set.read_at], tonumber(set.read[set.read_at + 1])
  if added and (not member or added.score < score
    or (added.score == score and added.member < member)) then
    return added.member, added.score
  end
  return member, score
end

local function remove_from(set, member)
  set.changes[member] = false
end

local function add_to(set, member, score)
  local entry, added = { member = member, score = score }, set.added
  local low, high = set.added_at, #added + 1
  local last = added[high - 1]
  if last and (last.score < score or (last.score == score and last.member < member)) then
    low = high
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = added[middle]
    if other.score < score or (other.score == score and other.member < member) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(added, low, entry)
  set.changes[member] = entry
end

local function write_ordered(set)
  local removed, added, count, score, text = {}, {}, 0, nil, nil
  for member, entry in pairs(set.changes) do
    if entry then
      if entry.score ~= score then score, text = entry.score, format('%.17g', entry.score) end
      added[count + 1], added[count + 2] = text, member
      count = count + 2
    else
      removed[#removed + 1] = member
    end
  end
  call_many('ZREM', set.key, removed)
  call_many('ZADD', set.key, added)
end
