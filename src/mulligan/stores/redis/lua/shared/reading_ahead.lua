-- Reading lanes ahead during a claim: what is taken from the front of a lane is removed at the end,
-- with one command for a list and one for a sorted set.
-- include: permits

local lines_by_lane = {}
local most

-- The ids of members, every `step`th of a list, and the texts of their jobs, false for none.
local function read_texts(members, step)
  local ids, keys, texts = {}, {}, {}
  for at = 1, #members, step do
    local id = id_of(members[at])
    ids[#ids + 1], keys[#keys + 1] = id, p .. 'job:' .. id
  end
  for first = 1, #keys, CHUNK do
    local part = call('MGET', unpack(keys, first, math.min(first + CHUNK - 1, #keys)))
    if #keys <= CHUNK then return ids, part end
    for _, text in ipairs(part) do texts[#texts + 1] = text end
  end
  return ids, texts
end

-- What a claim needs of a job's state, where it has any.
local function read_state(id)
  return call('HMGET', p .. 'state:' .. id, 'due', 'counts', 'marks', 'trail')
end

local function forget_ahead(line)
  line.list, line.list_from, line.list_at, line.list_over = {}, 0, 0, not line.has_list
  line.sorted, line.sorted_from, line.sorted_at, line.sorted_over = {}, 0, 0, false
  line.member, line.text, line.due, line.last = nil, nil, nil, nil
  line.fills, line.unsorted = 0, false
end

-- The lanes of a plan that have jobs, by their number in it.
local function open_lines(lanes, demand)
  local lines = {}
  most = math.max(demand, 1) + 1
  for first = 1, #lanes, CHUNK do
    local last = math.min(first + CHUNK - 1, #lanes)
    local known = call('SMISMEMBER', p .. 'lanes', unpack(lanes, first, last))
    for offset, member in ipairs(known) do
      if member == 1 then
        local lane = lanes[first + offset - 1]
        local line = { lane = lane, has_list = has_line(lane) }
        line.gone = line.has_list and call('EXISTS', p .. 'gone:' .. lane) == 1
        forget_ahead(line)
        lines[first + offset - 1] = line
        lines_by_lane[lane] = line
      end
    end
  end
  return lines
end

local function read_list(line)
  line.last = line.list[#line.list] or line.last
  line.list_from, line.list_at = line.list_from + #line.list, 0
  line.list = call('LRANGE', p .. line.lane, line.list_from, line.list_from + most - 1)
  line.list_over = #line.list < most
  line.ids, line.texts = read_texts(line.list, 1)
  line.passed = {}
  if line.gone and #line.list > 0 then
    local from, to = sequence_of(line.list[1]), sequence_of(line.list[#line.list])
    for _, place in ipairs(call('ZRANGEBYSCORE', p .. 'gone:' .. line.lane, from, to)) do
      line.passed[place] = true
    end
  end
end

local ORDINARY, NO_STATE = 58, {}

-- Bring the first job of the list that is still pending to the front, with its state read; whether
-- there is one.
local function list_head(line)
  while not line.member do
    local at = line.list_at + 1
    if at <= #line.list then
      line.list_at = at
      local member = line.list[at]
      if line.texts[at] and not (line.gone and line.passed[sub(member, 1, 16)]) then
        line.member, line.id, line.text, line.due = member, line.ids[at], line.texts[at], nil
        line.state = NO_STATE
        if string.byte(member, 17) ~= ORDINARY then line.state = read_state(line.id) end
      end
    elseif line.list_over then
      return false
    else
      read_list(line)
    end
  end
  return true
end

-- When the job at the front of the list is due.
local function list_due(line)
  line.due = line.due or tonumber(line.state[1] or match(line.text, '^%d+\t([^\t]*)'))
  return line.due
end

local function sorted_head(line)
  if 2 * line.sorted_at >= #line.sorted and not line.sorted_over then
    -- Most lanes of retries have nothing due: look at one before reading many.
    local count = line.fills == 0 and 1 or most
    line.sorted_from, line.sorted_at = line.sorted_from + line.sorted_at, 0
    line.sorted = call('ZRANGE', sorted_key(line.lane), line.sorted_from,
      line.sorted_from + count - 1, 'WITHSCORES')
    line.sorted_over, line.fills = #line.sorted < 2 * count, line.fills + 1
    line.unsorted = line.has_list and #line.sorted == 0
    line.sorted_ids, line.sorted_texts = read_texts(line.sorted, 2)
  end
  local at = 2 * line.sorted_at
  if at >= #line.sorted then return nil end
  return tonumber(line.sorted[at + 2]), line.sorted[at + 1]
end

-- Due time and member of the first job in the lane, due or not, and whether it is in the list.
local function head(line)
  local listed = line.has_list and list_head(line)
  if line.unsorted and not listed then return nil end
  if line.unsorted then return list_due(line), line.member, true end
  local due, member = sorted_head(line)
  if not listed then return due, member, false end
  local first = list_due(line)
  if due and (due < first or (due == first and sequence_of(member) < sequence_of(line.member))) then
    return due, member, false
  end
  return first, line.member, true
end

-- Whether the lane is but a list that has a job, which then is due: who joins a list is due.
local function has_listed(line)
  return line.unsorted and list_head(line)
end

-- Take the first job out: its id, text and state, and where it stood.
local function take_head(line)
  local in_list = line.unsorted and list_head(line)
  local _, member
  if not in_list then _, member, in_list = head(line) end
  if in_list then
    member = line.member
    line.member = nil
    return line.id, line.text, line.state, member
  end
  line.sorted_at = line.sorted_at + 1
  local id = line.sorted_ids[line.sorted_at]
  return id, line.sorted_texts[line.sorted_at], read_state(id), member
end

-- Remove what was taken from the lane, and read it anew from now on.
local function write_taken(line)
  local at = line.member and line.list_at - 1 or line.list_at
  local dropped = line.list_from + at
  if dropped > 0 then
    call('LTRIM', p .. line.lane, dropped, -1)
    if line.gone then
      local last = at > 0 and line.list[at] or line.last
      call('ZREMRANGEBYSCORE', p .. 'gone:' .. line.lane, '-inf', sequence_of(last))
    end
  end
  local popped = line.sorted_from + line.sorted_at
  if popped > 0 then call('ZREMRANGEBYRANK', sorted_key(line.lane), 0, popped - 1) end
  forget_ahead(line)
end

before_standing = function(lane)
  local line = lines_by_lane[lane]
  if line then write_taken(line) end
end

local function close_lines(lines)
  for _, line in pairs(lines) do
    local empty = not head(line)
    write_taken(line)
    if empty and call('EXISTS', held_key(line.lane)) == 0 then
      call('SREM', p .. 'lanes', line.lane)
    end
  end
end
