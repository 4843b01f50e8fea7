-- Reading lanes in batches during a claim: what is taken from the head of a lane is removed at the
-- end, with one command for a list and one for a sorted set.
-- include: claim_fields, lease_text, insert, members, many

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
  return call('HMGET', p .. 'state:' .. id, 'due', 'counts', 'marks', unpack(CLAIM_FIELDS))
end

local function reset_reader(reader)
  reader.list, reader.list_from, reader.list_at, reader.list_over = {}, 0, 0, not reader.has_list
  reader.sorted, reader.sorted_from, reader.sorted_at, reader.sorted_over = {}, 0, 0, false
  reader.member, reader.text, reader.due, reader.last = nil, nil, nil, nil
  reader.fills, reader.unsorted = 0, false
end

-- See whether there is more to the lane than its jobs in order: lines, and jobs that are gone from
-- the list.
local function look_beside(reader)
  local gone = p .. 'gone:' .. reader.lane
  local lines_key, keys_key = p .. 'lines:' .. reader.lane, p .. 'keys:' .. reader.lane
  if not reader.has_list then
    reader.lined = call('EXISTS', lines_key, keys_key) > 0
  elseif call('EXISTS', gone, lines_key, keys_key) > 0 then
    reader.gone, reader.lined = call('EXISTS', gone) == 1, call('EXISTS', lines_key, keys_key) > 0
  end
end

-- The lanes of a plan that have jobs, by their number in it; the first follows ARGV[from].
local function open_readers(from, count, demand)
  local readers = {}
  most = math.max(demand, 1) + 1
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    local known = call('SMISMEMBER', p .. 'lanes', unpack(ARGV, from + first, from + last))
    for offset, member in ipairs(known) do
      if member == 1 then
        local number = first + offset - 1
        local lane = ARGV[from + number]
        local reader = { lane = lane, has_list = has_list(lane) }
        look_beside(reader)
        reset_reader(reader)
        readers[number] = reader
      end
    end
  end
  return readers
end

local function read_list(reader)
  reader.last = reader.list[#reader.list] or reader.last
  reader.list_from, reader.list_at = reader.list_from + #reader.list, 0
  reader.list = call('LRANGE', p .. reader.lane, reader.list_from, reader.list_from + most - 1)
  reader.list_over = #reader.list < most
  reader.ids, reader.texts = read_texts(reader.list, 1)
  reader.passed = {}
  if reader.gone and #reader.list > 0 then
    local from, to = sequence_of(reader.list[1]), sequence_of(reader.list[#reader.list])
    for _, sequence in ipairs(call('ZRANGEBYSCORE', p .. 'gone:' .. reader.lane, from, to)) do
      reader.passed[sequence] = true
    end
  end
end

local NO_STATE = {}

-- Go on to the first job of the list that is still pending, and read its state; whether there is
-- one.
local function list_head(reader)
  while not reader.member do
    local at = reader.list_at + 1
    if at <= #reader.list then
      reader.list_at = at
      local member = reader.list[at]
      if reader.texts[at] and not (reader.gone and reader.passed[sub(member, 1, 16)]) then
        reader.member, reader.id, reader.text = member, reader.ids[at], reader.texts[at]
        reader.due = nil
        reader.state = NO_STATE
        if byte(member, 17) ~= COLON or #reader.text < SEQUENCE_WIDTH then
          reader.state = read_state(reader.id)
        end
      end
    elseif reader.list_over then
      return false
    else
      read_list(reader)
    end
  end
  return true
end

-- When the job at the head of the list is due.
local function list_due(reader)
  if not reader.due then
    reader.due = tonumber(reader.state[1] or match(reader.text, '^%d+\t([^\t]*)')) or now
  end
  return reader.due
end

local function sorted_head(reader)
  if 2 * reader.sorted_at >= #reader.sorted and not reader.sorted_over then
    -- Most lanes of retries have nothing due: look at one before reading many.
    local count = reader.fills == 0 and 1 or most
    reader.sorted_from, reader.sorted_at = reader.sorted_from + reader.sorted_at, 0
    reader.sorted = call('ZRANGE', sorted_key(reader.lane), reader.sorted_from,
      reader.sorted_from + count - 1, 'WITHSCORES')
    reader.sorted_over, reader.fills = #reader.sorted < 2 * count, reader.fills + 1
    reader.sorted_ids, reader.sorted_texts = read_texts(reader.sorted, 2)
  end
  local at = 2 * reader.sorted_at
  local due = tonumber(reader.sorted[at + 2])
  reader.unsorted = reader.has_list and not (due and due <= now)
  return due, reader.sorted[at + 1]
end

-- Due time and member of the first job that stands in the lane itself, due or not, and whether it
-- is in the list.
local function own_head(reader)
  local listed = reader.has_list and list_head(reader)
  if listed and reader.unsorted then return list_due(reader), reader.member, true end
  local due, member = sorted_head(reader)
  if not listed then return due, member, false end
  local first, other = list_due(reader), reader.member
  if due and (due < first or (due == first and sequence_of(member) < sequence_of(other))) then
    return due, member, false
  end
  return first, other, true
end

-- Whether the head of the lane is in the list, and so is due: what joins a list is due, the sorted
-- set beside it was seen to have nothing due, and no line may go before it.
local function has_listed(reader)
  return reader.unsorted and not reader.is_mixed and list_head(reader)
end

-- Whether that job is plain: it has no state.
local function has_plain(reader)
  return has_listed(reader) and reader.state == NO_STATE
end

-- Take plain jobs from the head of the list, which is one, up to so many; gives the index of the
-- first and the last in what was read.
local function take_plain(reader, count)
  local list, texts, passed, first = reader.list, reader.texts, reader.passed, reader.list_at
  local last = math.min(first + count, #list + 1) - 1
  for at = first + 1, last do
    local member, text = list[at], texts[at]
    local plain = byte(member, 17) == COLON and text and #text >= SEQUENCE_WIDTH
    if not plain or reader.gone and passed[sub(member, 1, 16)] then
      last = at - 1
      break
    end
  end
  reader.member, reader.list_at = nil, last
  return first, last
end

-- Take the head out: its id, text, state and member.
local function take_head(reader)
  local in_list = reader.unsorted and list_head(reader)
  local _, member
  if not in_list then _, member, in_list = own_head(reader) end
  if in_list then
    member = reader.member
    reader.member = nil
    return reader.id, reader.text, reader.state, member
  end
  reader.sorted_at = reader.sorted_at + 1
  local id = reader.sorted_ids[reader.sorted_at]
  return id, reader.sorted_texts[reader.sorted_at], read_state(id), member
end

-- Remove what was taken from the lane, and read it anew from now on.
local function write_taken(reader)
  local at = reader.member and reader.list_at - 1 or reader.list_at
  local dropped = reader.list_from + at
  if dropped > 0 then
    call('LTRIM', p .. reader.lane, dropped, -1)
    if reader.gone then
      local last = at > 0 and reader.list[at] or reader.last
      call('ZREMRANGEBYSCORE', p .. 'gone:' .. reader.lane, '-inf', sequence_of(last))
    end
  end
  local popped = reader.sorted_from + reader.sorted_at
  if popped > 0 then call('ZREMRANGEBYRANK', sorted_key(reader.lane), 0, popped - 1) end
  reset_reader(reader)
end

local function close_readers(readers)
  for _, reader in pairs(readers) do
    local is_empty = not own_head(reader)
    write_taken(reader)
    local has_lines = is_empty and reader.lined
      and call('EXISTS', p .. 'lines:' .. reader.lane, p .. 'keys:' .. reader.lane) > 0
    if is_empty and not has_lines then
      call('SREM', p .. 'lanes', reader.lane)
    end
  end
end
