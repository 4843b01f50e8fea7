-- Reading lanes ahead during a claim: what is taken from the front of a lane is removed at the end,
-- with one command for a list and one for a sorted set.
-- include: ordinary, permits

local lines_by_lane = {}
local most

-- The ids of members, every `step`th of a list, and the texts of their jobs, false for none.
local function read_texts(members, step)
  local ids, count = {}, 0
  for at = 1, #members, step do
    count = count + 1
    ids[count] = sub(members[at], 18)
  end
  return ids, read_many(p .. 'jobs', ids, 1, count)
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

-- The lanes of a plan that have jobs, by their number in it; the first follows ARGV[from].
local function open_lines(from, count, demand)
  local lines = {}
  most = math.max(demand, 1) + 1
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    local known = call('SMISMEMBER', p .. 'lanes', unpack(ARGV, from + first, from + last))
    for offset, member in ipairs(known) do
      if member == 1 then
        local number = first + offset - 1
        local lane = ARGV[from + number]
        local line = { lane = lane, has_list = has_line(lane) }
        line.gone = line.has_list and call('EXISTS', p .. 'gone:' .. lane) == 1
        forget_ahead(line)
        lines[number], lines_by_lane[lane] = line, line
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
    local from, to = place_of(line.list[1]), place_of(line.list[#line.list])
    for _, place in ipairs(call('ZRANGEBYSCORE', p .. 'gone:' .. line.lane, from, to)) do
      line.passed[place] = true
    end
  end
end

local NO_STATE = {}

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
        if byte(member, 17) ~= COLON or #line.text < PLACE_WIDTH then
          line.state = read_state(line.id)
        end
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
  line.due = line.due or tonumber(line.state[1] or match(line.text, '^%d+\t([^\t]*)')) or now
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
    line.sorted_ids, line.sorted_texts = read_texts(line.sorted, 2)
  end
  local at = 2 * line.sorted_at
  local due = tonumber(line.sorted[at + 2])
  line.unsorted = line.has_list and not (due and due <= now)
  return due, line.sorted[at + 1]
end

-- Due time and member of the first job in the lane, due or not, and whether it is in the list.
local function head(line)
  local listed = line.has_list and list_head(line)
  if listed and line.unsorted then return list_due(line), line.member, true end
  local due, member = sorted_head(line)
  if not listed then return due, member, false end
  local first = list_due(line)
  if due and (due < first or (due == first and place_of(member) < place_of(line.member))) then
    return due, member, false
  end
  return first, line.member, true
end

-- Whether the first job of the lane is in the list, and then is due: who joins a list is due, and
-- what stands beside it was seen not to be.
local function has_listed(line)
  return line.unsorted and list_head(line)
end

-- Whether that job is ordinary: it has no state.
local function has_ordinary(line)
  return has_listed(line) and line.state == NO_STATE
end

-- Take ordinary jobs from the front of the list, where one stands, up to so many; gives the index
-- of the first and the last in what was read.
local function take_ordinary(line, count)
  local list, texts, passed, first = line.list, line.texts, line.passed, line.list_at
  local last = math.min(first + count, #list + 1) - 1
  for at = first + 1, last do
    local member, text = list[at], texts[at]
    local ordinary = byte(member, 17) == COLON and text and #text >= PLACE_WIDTH
    if not ordinary or line.gone and passed[sub(member, 1, 16)] then
      last = at - 1
      break
    end
  end
  line.member, line.list_at = nil, last
  return first, last
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
      call('ZREMRANGEBYSCORE', p .. 'gone:' .. line.lane, '-inf', place_of(last))
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
