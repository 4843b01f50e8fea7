-- What is stored of lines and of fairness keys, for the book: see line_book.lua. It is read when it is
-- first asked for, and written once.
--
-- `lines:LANE` has by tag a line with limits: stage, limit where it waits, turn, due time, limits of
-- its first job, the limits of jobs that have no state to be asked for theirs, `+` if it has more jobs
-- than one, and the first. `keys:LANE` has by fairness key its turn, how many of its lines are ready,
-- the line without limits (stage, due time, `+` if it has more jobs than one, and the first), and its
-- first ready line: `=` if that is this one.
-- include: many, members

local function keep_records(book, lane_of)
  local TAB, NO_TURN = 9, book.NO_TURN
  local LINE = '^' .. string.rep('([^\t]*)\t', 7) .. '([^\t]*)$'
  local KEY = '^' .. string.rep('([^\t]*)\t', 6) .. '(.*)$'

  local function has_limits(tag)
    return string.byte(tag, #tag) ~= TAB
  end

  -- A line that the book does not have. All of a table's fields are named where it is made: adding one
  -- later takes longer.
  local function new_line(lane, tag, key, base)
    return { lane = lane, tag = tag, key = key, base = base, limits = base, turn = NO_TURN,
      stage = 'lifted', at = nil, due = 0, due_text = '', sequence = 0, first = nil, has_set = false,
      joined = nil, reader = nil, member = nil }
  end

  local function read_line(known, tag, key, base, stage, due, more, first)
    local line = new_line(known.name, tag, key, base)
    line.stage, line.due, line.due_text, line.has_set = stage, tonumber(due), due, more ~= ''
    line.first, line.sequence = first, sequence_of(first)
    known.lines[tag] = line
    return line
  end

  -- A line with limits.
  local function read_limited(known, tag, text)
    if not text then
      known.lines[tag] = false
      return
    end
    local stage, at, turn, due, limits, base, more, first = match(text, LINE)
    local line = read_line(known, tag, match(tag, '^[^\t]*'), base, stage, due, more, first)
    line.at, line.turn, line.limits = at ~= '' and at or nil, tonumber(turn), limits
  end

  -- A key, and its line without limits; one that the lane does not know has turn 0.
  local function read_key(known, name, text)
    local line = false
    local key = { lane = known.name, name = name, turn = 0, ready = false, ready_count = 0,
      put_turn = 0, put_ready = false, is_idle = false }
    known.keys[name] = key
    if text then
      local turn, count, stage, due, more, first, ready = match(text, KEY)
      key.turn, key.ready_count = tonumber(turn), tonumber(count)
      if stage ~= '' then line = read_line(known, name .. '\t', name, '', stage, due, more, first) end
      if ready == '=' then
        key.ready = book.member_for(line)
      elseif ready ~= '' then
        key.ready = ready
      end
      key.is_idle = not line and not key.ready
      key.put_turn, key.put_ready = key.turn, key.ready
    end
    if not line then known.lines[name .. '\t'] = false end
    return key
  end

  -- The fairness key. Its `ready` is the first of its ready lines, as `turns:LANE` has it.
  function book.key(lane, name)
    local known = lane_of(lane)
    return known.keys[name] or read_key(known, name, call('HGET', p .. 'keys:' .. lane, name))
  end

  -- The line, if it has jobs.
  function book.line(lane, tag)
    local known = lane_of(lane)
    if known.lines[tag] == nil then
      if has_limits(tag) then
        read_limited(known, tag, call('HGET', p .. 'lines:' .. lane, tag))
      else
        book.key(lane, sub(tag, 1, -2))
      end
    end
    return known.lines[tag]
  end

  -- Read these lines with their keys at once, those that are not known yet.
  function book.read_lines(lane, tags)
    local known, limited, names, asked = lane_of(lane), {}, {}, {}
    for _, tag in ipairs(tags) do
      local name = match(tag, '^[^\t]*')
      if known.lines[tag] == nil and has_limits(tag) then limited[#limited + 1] = tag end
      if not known.keys[name] and not asked[name] then
        names[#names + 1], asked[name] = name, true
      end
    end
    for at, text in ipairs(read_many(p .. 'lines:' .. lane, limited, 1, #limited)) do
      read_limited(known, limited[at], text)
    end
    for at, text in ipairs(read_many(p .. 'keys:' .. lane, names, 1, #names)) do
      read_key(known, names[at], text)
    end
  end

  local function more_text(line)
    return line.has_set and '+' or ''
  end

  local function line_text(line)
    return table.concat({ line.stage, line.at or '', format('%.0f', line.turn), line.due_text,
      line.limits, line.base, more_text(line), line.first }, '\t')
  end

  -- Turns as they are written; many keys have the same.
  local turn_texts = {}
  local function turn_text(turn)
    local text = turn_texts[turn]
    if not text then
      text = format('%.0f', turn)
      turn_texts[turn] = text
    end
    return text
  end

  local function key_text(key, line)
    local heading = turn_text(key.turn) .. '\t' .. key.ready_count .. '\t'
    if not line then return heading .. '\t\t\t\t' .. (key.ready or '') end
    local ready = key.ready == book.member_for(line) and '=' or key.ready or ''
    return heading .. line.stage .. '\t' .. line.due_text .. '\t' .. more_text(line) .. '\t'
      .. line.first .. '\t' .. ready
  end

  -- Write what has changed. Keys without a line here, and without a ready one, are idle: they are in
  -- `idle:LANE` by turn, until that is past.
  function book.write_records(known)
    local lines, keys = { kept = {}, gone = {} }, { kept = {}, gone = {} }
    local idle, busy, present = {}, {}, next(known.changed) and book.present_turn(known.name)
    for tag in pairs(known.changed) do
      local line, name = known.lines[tag], sub(tag, 1, -2)
      local key = known.keys[name]
      if has_limits(tag) then
        local into = line and lines.kept or lines.gone
        into[#into + 1] = tag
        if line then into[#into + 1] = line_text(line) end
      elseif key then
        local is_idle = not line and not key.ready
        if is_idle and key.turn <= present then
          keys.gone[#keys.gone + 1] = name
          if key.is_idle then busy[#busy + 1] = name end
        else
          keys.kept[#keys.kept + 1] = name
          keys.kept[#keys.kept + 1] = key_text(key, line)
          if is_idle then
            idle[#idle + 1], idle[#idle + 2] = turn_text(key.turn), name
          elseif key.is_idle then
            busy[#busy + 1] = name
          end
        end
      end
    end
    call_many('HSET', p .. 'lines:' .. known.name, lines.kept)
    call_many('HDEL', p .. 'lines:' .. known.name, lines.gone)
    call_many('HSET', p .. 'keys:' .. known.name, keys.kept)
    call_many('HDEL', p .. 'keys:' .. known.name, keys.gone)
    call_many('ZADD', p .. 'idle:' .. known.name, idle)
    call_many('ZREM', p .. 'idle:' .. known.name, busy)
  end

  book.new_line = new_line
end
