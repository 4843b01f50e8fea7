-- Lines of jobs that name the same limits and have the same fairness key. A port of core/lines.py,
-- which says what they are and is the oracle, under the same names. It is made when it is first asked
-- for, as the book is.
-- include: line_book, line_tag

local the_lines

local function lines()
  if the_lines then return the_lines end
  local lines, book, costs_of = {}, line_book(), named_limits().costs_of
  local FOREVER, NO_KEY, TURN, AFTER_ALL = math.huge, '', 1000000, 'later than any'
  local NO_TURN = book.NO_TURN
  local look

  -- -- a line and its first job -----------------------------------------------------------------

  -- See which ready line of the key is first now; one without any may have lost its turn.
  local function renew_key(line)
    local key = book.key(line.lane, line.key)
    local first = book.first_ready(line.lane, key.name)
    if not key.ready and first then key.turn = math.max(key.turn, book.present_turn(line.lane)) end
    key.ready = book.ready_of(first)
    book.put_key(key)
  end

  local function put(line, stage, at)
    line.stage, line.at = stage, at
    book.put(line)
    renew_key(line)
  end

  -- The line may be claimed in its turn.
  local function make_ready(line)
    put(line, 'ready')
    book.wake(line.lane, line.due)
  end

  -- The line waits at the limit, in order.
  local function wait(line, name)
    if line.turn == NO_TURN then
      line.turn = math.max(book.key(line.lane, line.key).turn, book.present_turn(line.lane))
    end
    put(line, 'waiting', name)
    look(name, line.lane)
  end

  -- The line has a new first job: see in which stage it is with that.
  local function enter(line, due, member, limits)
    book.lift(line)
    book.set_first(line, due, sequence_of(member), member, limits)
    line.turn = NO_TURN
    if due > now then
      put(line, 'later')
      book.wake(line.lane, due)
      return
    end
    for _, name in ipairs(costs_of(limits).names) do
      if book.first_waiting(name, line.lane) then
        wait(line, name)
        return
      end
    end
    make_ready(line)
  end

  -- If the limit has room for the first line that waits there, it is ready; else see when.
  look = function(name, lane)
    local line = book.first_waiting(name, lane)
    local at = line and book.room_at(name, costs_of(line.limits).by_name[name]) or FOREVER
    if line and at <= now then
      book.alarm(name, lane, nil)  -- the next one is looked at when this one is gone
      book.lift(line)
      make_ready(line)
    elseif at == FOREVER then
      book.alarm(name, lane, nil)
    else
      book.alarm(name, lane, at)
      book.wake(lane, at)
    end
  end

  -- The line's first job is gone: the next is first, and other lines may have room.
  local function go_on(line)
    local due, member, limits = book.first_of(line)
    if not due then
      book.lift(line)
      book.drop(line)
      renew_key(line)
    else
      enter(line, due, member, limits)
    end
    for _, name in ipairs(costs_of(line.limits).names) do look(name, line.lane) end
  end

  -- A job joins a line of the lane. `is_plain` says that its state has nothing but its key and its
  -- limits.
  function lines.stand(id, lane, due, sequence, key, limits, is_plain)
    local tag = tag_of(key, limits)
    local line = book.line(lane, tag)
    local is_first = not line or due < line.due or (due == line.due and sequence < line.sequence)
    line = line or book.new_line(lane, tag, match(tag, '^[^\t]*'), limits)
    local member = book.add(line, id, due, sequence, limits, is_plain)
    if is_first then enter(line, due, member, limits) end
  end

  -- Jobs with a key each and nothing else join their lines, due now. The same as `stand` for each of
  -- them: the line of a key of which nothing is kept is ready, and none of its others is before it.
  function lines.stand_keyed(lane, ids, sequences, keys)
    local names, begun, firsts, others, tags = {}, {}, {}, {}, {}
    for at, key in ipairs(keys) do names[at] = key_name(key) end
    local unknown = book.unknown_keys(lane, names)
    for at, name in ipairs(names) do
      if unknown[name] then
        unknown[name] = nil
        begun[#begun + 1], firsts[#firsts + 1] = name, sequence_text(sequences[at]) .. '=' .. ids[at]
      else
        others[#others + 1], tags[#tags + 1] = at, name .. '\t'
      end
    end
    book.begin_lines(lane, begun, firsts)
    for _ = 1, #begun do
      if not wake_for(lane, now) then break end
    end
    book.read_lines(lane, tags)
    for _, at in ipairs(others) do
      lines.stand(ids[at], lane, now, sequences[at], keys[at], '', true)
    end
  end

  -- A job leaves its line without starting; if it was the first, another is.
  function lines.leave(id, lane, sequence, key, limits)
    local line = book.line(lane, tag_of(key, limits))
    if not line then return end
    book.remove(line, id, sequence)
    if line.sequence == sequence then go_on(line) end
  end

  -- The first job of the line was taken out, and has ended instead of starting.
  lines.left = go_on

  -- The limit may have more room than before: look for every lane that waits there.
  function lines.opened(name)
    for _, lane in ipairs(book.lanes_at(name)) do look(name, lane) end
  end

  -- -- the claim --------------------------------------------------------------------------------

  -- Bring the lane's lines up to the present: what fell due, and limits that have room again.
  function lines.advance(lane)
    local line = book.first_later(lane)
    while line and line.due <= now do
      enter(line, line.due, line.first, line.limits)
      line = book.first_later(lane)
    end
    local at, name = book.next_alarm(lane)
    while at and at <= now do
      look(name, lane)
      at, name = book.next_alarm(lane)
    end
  end

  -- The key whose turn is next in the lane, and the first of its ready lines.
  local function first_line(lane)
    local key = book.first_key(lane)
    local line = key and book.first_ready(lane, key.name)
    if line then return key, line end
  end

  -- Whether jobs of the lane are taken in turns: a line is ready, or has a key.
  function lines.take_turns(lane)
    return book.first_key(lane) and true or book.is_fair(lane)
  end

  -- The line that is next in the lane; nil if none is ready, or a job that stands in the lane itself
  -- goes before it: that of this due time and sequence, if any is due.
  function lines.next_line(lane, due, sequence)
    local key, line = first_line(lane)
    if not line or not due then return line end
    local turn = math.max(book.key(lane, NO_KEY).turn, book.present_turn(lane))
    if key.turn ~= turn then return key.turn < turn and line or nil end
    if line.due ~= due then return line.due < due and line or nil end
    return line.sequence < sequence and line or nil
  end

  -- When a line of the lane could be ready by itself; FOREVER if none could.
  function lines.next_at(lane)
    local line, at = book.first_later(lane), book.next_alarm(lane)
    return math.min(line and line.due or FOREVER, at or FOREVER)
  end

  -- When a job in a line of the lane could start; FOREVER if none could by itself.
  function lines.due_of(lane)
    local _, line = first_line(lane)
    return line and line.due or lines.next_at(lane)
  end

  local function is_before(one, turn, due, sequence)
    if one.turn ~= turn then return one.turn < turn end
    if one.due ~= due then return one.due < due end
    return one.sequence < sequence
  end

  -- The first of its limits that has no room for a ready line, or where an earlier one waits.
  function lines.lacks(line)
    local turn, costs = line.turn, costs_of(line.limits)
    if turn == NO_TURN then turn = book.key(line.lane, line.key).turn end
    for _, name in ipairs(costs.names) do
      local first = book.first_waiting(name, line.lane)
      if first and is_before(first, turn, line.due, line.sequence) then return name end
      if book.room_at(name, costs.by_name[name]) > now then return name end
    end
  end

  -- A ready line waits at a limit that has no room for it.
  function lines.set_aside(line, name)
    book.lift(line)
    wait(line, name)
    for _, other in ipairs(costs_of(line.limits).names) do
      if other ~= name then look(other, line.lane) end
    end
  end

  -- So many jobs of the key have started one after the other: the turn of the last is the lane's,
  -- and the key's next one comes a step later. Gives the key, if the lane is fair.
  local function pass_turns(lane, name, step, count)
    if not book.is_fair(lane) then return nil end
    local key = book.key(lane, name)
    local turn = math.max(key.turn, book.present_turn(lane)) + (count - 1) * (step or TURN)
    key.turn = turn + (step or TURN)
    book.pass_to(lane, turn)
    return key
  end

  -- A job of the key has started.
  function lines.take_turn(lane, name, step)
    local key = pass_turns(lane, name, step, 1)
    if key then book.put_key(key) end
  end

  -- The first jobs of a ready line have started, so many: the limits are charged, the jobs are out.
  -- Its key is put when it is known what comes next.
  function lines.started(line, step, count)
    pass_turns(line.lane, line.key, step, count)
    go_on(line)
  end

  -- The first job of the key whose turn is next starts, if it has nothing but its key and that is all
  -- there is to see: its id and text. `take` of the claim looks closer.
  lines.start_plain = book.start_plain

  -- Jobs of the line that is next in the lane may start one after the other while they are ordered
  -- before this, as long as there is room; nil if others may come between. Due time and sequence are
  -- those of the first job that stands in the lane itself, if it is due.
  function lines.run_bound(line, due, sequence)
    if book.is_fair(line.lane) and (due or book.has_other_keys(line.lane)) then return nil end
    for _, name in ipairs(costs_of(line.limits).names) do
      if book.first_waiting(name, line.lane) then return nil end
    end
    local bound = book.second_ready(line.lane, line.key) or AFTER_ALL
    local own = due and book.order_of(due, sequence) or AFTER_ALL
    return own < bound and own or bound
  end

  the_lines = lines
  return lines
end

-- Write what was put off, if anything stands in lines.
local function finish_lines()
  if the_book then
    the_book.write()
  elseif the_limits then
    the_limits.write()
  end
end
