-- What is kept of lines, and of the turns of fairness keys: the book of core/lines.py, under the same
-- names. It is made when it is first asked for, as the limits are.
--
-- A line of a lane is known by its key and the names of its limits, with tabs between: its tag.
-- `lines:LANE` has by tag: stage, limit where it waits, turn, due time and sequence of its first
-- job, the limits of that job, the limits of jobs that have no state to be asked for theirs, and its
-- only job. `line:LANE:TAG` has its jobs by due time where there are more, and `lined:LANE` those of
-- all lines of the lane. Stages: `later:LANE` by due time, `ready:LANE` in order of key, due time and
-- sequence, and `waits:LANE:LIMIT` by turn, due time and sequence.
-- include: insert, line_jobs, line_turns, many, named_limits, ordered, sequences, times

-- Set by the claim: by lane, whether somebody is to be woken for what is ready there in the end.
local wakes_put_off
local the_book

local function line_book()
  if the_book then return the_book end
  local NO_KEY, AFTER_ALL, DUE_WIDTH, ORDER_WIDTH = '', '\255', 22, 39
  local LINE = '^' .. string.rep('([^\t]*)\t', 6) .. '([^\t]*)$'
  local book, limits, lanes = {}, named_limits(), {}
  -- By limit, the lanes of which lines wait there; and whether any did when this script began.
  local waited_lanes, anything_waits = {}, nil

  -- The turn of a line that has not waited with its first job.
  book.NO_TURN = -1

  -- What is known of the lane. Nothing of it is written before `write`, unless it says so.
  local function lane_of(lane)
    local known = lanes[lane]
    if not known then
      known = { name = lane, lines = {}, changed = {}, joined = {}, taken = {}, waits = {},
        keys = {}, changed_keys = {}, first_ready = {}, ready_changes = {}, more_keys = 0,
        later = ordered(p .. 'later:' .. lane), alarms = ordered(p .. 'alarms:' .. lane),
        turns = ordered(p .. 'turns:' .. lane) }
      known.turns.on_read = function(members) book.read_ahead(known, members) end
      lanes[lane] = known
    end
    return known
  end

  -- What sorts by due time and sequence as text.
  function book.order_of(due, sequence)
    return format('%022.6f %s', due, sequence_text(sequence))
  end

  -- The line as a member of a sorted set: the order of its first job, a tab, its tag.
  function book.member_for(line)
    if line.member_of ~= line.sequence then
      line.order = book.order_of(line.due, line.sequence)
      line.member, line.member_of = line.order .. '\t' .. line.tag, line.sequence
    end
    return line.member
  end

  function book.tag_in(member)
    return sub(member, ORDER_WIDTH + 2)
  end

  local member_for, tag_in = book.member_for, book.tag_in
  keep_jobs(book, lane_of)
  keep_turns(book, lane_of)

  -- -- lines ------------------------------------------------------------------------------------

  -- A line that the book does not have.
  function book.new_line(lane, tag, base)
    return { lane = lane, tag = tag, key = match(tag, '^[^\t]*'), base = base, due = 0, sequence = 0,
      limits = base, turn = book.NO_TURN, stage = 'lifted', joined = {} }
  end

  function book.read_line(known, tag, text)
    local line = false
    if text then
      local stage, at, turn, order, limits_text, base, only = match(text, LINE)
      line = book.new_line(known.name, tag, base)
      line.only, line.has_set = only ~= '' and only or nil, only == ''
      line.stage, line.at, line.turn = stage, at ~= '' and at or nil, tonumber(turn)
      line.due, line.sequence = tonumber(sub(order, 1, DUE_WIDTH)), tonumber(sub(order, -16))
      line.limits, line.order, line.member = limits_text, order, order .. '\t' .. tag
      line.member_of = line.sequence
    end
    known.lines[tag] = line
    return line
  end

  -- The line, if it has jobs.
  function book.line(lane, tag)
    local known = lane_of(lane)
    local line = known.lines[tag]
    if line ~= nil then return line end
    return book.read_line(known, tag, call('HGET', p .. 'lines:' .. lane, tag))
  end

  -- The lines of the lane that wait at the limit.
  local function waits_at(lane, limit)
    local waits = lane_of(lane).waits
    if not waits[limit] then
      if anything_waits == nil then anything_waits = call('EXISTS', p .. 'waited-for') == 1 end
      waits[limit] = ordered(p .. 'waits:' .. lane .. ':' .. limit, not anything_waits)
    end
    return waits[limit]
  end

  local function write_ready(known)
    local ready, gone = {}, {}
    for member, is_ready in pairs(known.ready_changes) do
      if is_ready then
        ready[#ready + 1], ready[#ready + 2] = 0, member
      else
        gone[#gone + 1] = member
      end
    end
    call_many('ZADD', p .. 'ready:' .. known.name, ready)
    call_many('ZREM', p .. 'ready:' .. known.name, gone)
    known.ready_changes = {}
  end

  -- So many of the ready lines of the key are before the one whose member this gives.
  local function ready_at(known, key, place)
    write_ready(known)
    local found = call('ZRANGEBYLEX', p .. 'ready:' .. known.name, '[' .. key .. '\t',
      '(' .. key .. '\t' .. AFTER_ALL, 'LIMIT', place, 1)[1]
    return found and sub(found, #key + 2)
  end

  -- `ready:LANE` has the ready lines of keys that have several.
  local function change_ready(known, line, is_ready)
    known.ready_changes[line.key .. '\t' .. member_for(line)] = is_ready
  end

  -- A line of the key is ready.
  local function note_ready(known, line)
    local key, first = book.key(line.lane, line.key), book.first_ready(line.lane, line.key)
    key.ready_count = key.ready_count + 1
    if first then
      change_ready(known, line, true)
      if key.ready_count == 2 then change_ready(known, first, true) end
    end
    if not first or member_for(line) < member_for(first) then
      known.first_ready[line.key] = line
    end
  end

  -- A line of the key is ready no more.
  local function note_unready(known, line)
    local key, first = book.key(line.lane, line.key), book.first_ready(line.lane, line.key)
    key.ready_count = key.ready_count - 1
    if key.ready_count == 0 then
      known.first_ready[line.key] = false
      return
    end
    change_ready(known, line, false)
    if first == line then first = book.line(line.lane, tag_in(ready_at(known, line.key, 0))) end
    if key.ready_count == 1 then change_ready(known, first, false) end
    known.first_ready[line.key] = first
  end

  -- Take the line out of its stage, if it is in one.
  function book.lift(line)
    local known, stage = lane_of(line.lane), line.stage
    if stage == 'later' then
      remove_from(known.later, member_for(line))
    elseif stage == 'ready' then
      note_unready(known, line)
    elseif stage == 'waiting' then
      local waits = waits_at(line.lane, line.at)
      remove_from(waits, member_for(line))
      if not first_in(waits) then
        call('ZREM', p .. 'waited-for', line.at .. '\t' .. line.lane)
        waited_lanes[line.at] = nil
      end
    end
    line.stage, line.at = 'lifted', nil
  end

  -- Keep the line as it is now.
  function book.put(line)
    local known, stage = lane_of(line.lane), line.stage
    if known.lines[line.tag] ~= line then
      known.lines[line.tag] = line
      if line.key ~= NO_KEY then book.count_keyed(line.lane, 1) end
    end
    known.changed[line.tag] = true
    if stage == 'later' then
      add_to(known.later, member_for(line), line.due)
    elseif stage == 'ready' then
      note_ready(known, line)
    elseif stage == 'waiting' then
      local waits = waits_at(line.lane, line.at)
      if not first_in(waits) then
        call('ZADD', p .. 'waited-for', 0, line.at .. '\t' .. line.lane)
        waited_lanes[line.at] = nil
      end
      add_to(waits, member_for(line), line.turn)
    end
  end

  -- Forget a line that has no jobs any more; the last one with a key ends the turns.
  function book.drop(line)
    local known = lane_of(line.lane)
    book.write_popped(line)
    known.lines[line.tag], known.changed[line.tag] = false, true
    if line.key ~= NO_KEY and book.count_keyed(line.lane, -1) == 0 then book.end_turns(line.lane) end
  end

  -- Of the lines whose first job is not due, the one that is due first.
  function book.first_later(lane)
    local first = first_in(lane_of(lane).later)
    return first and book.line(lane, tag_in(first))
  end

  -- Of the ready lines of the key the first by (due, sequence).
  function book.first_ready(lane, name)
    local known = lane_of(lane)
    local line = known.first_ready[name]
    if line == nil then
      local ready = book.key(lane, name).ready
      line = ready and book.line(lane, tag_in(ready)) or false
      known.first_ready[name] = line
    end
    return line
  end

  -- What the second ready line of the key is ordered by; nil if there is none.
  function book.second_ready(lane, name)
    if book.key(lane, name).ready_count < 2 then return nil end
    return match(ready_at(lane_of(lane), name, 1), '^[^\t]*')
  end

  -- Of the lines of the lane that wait at the limit, the first in order.
  function book.first_waiting(limit, lane)
    local first = first_in(waits_at(lane, limit))
    return first and book.line(lane, tag_in(first))
  end

  -- -- limits -----------------------------------------------------------------------------------

  book.room_at = limits.room_at

  -- The lanes of which a line waits at the limit.
  function book.lanes_at(limit)
    local found = waited_lanes[limit]
    if not found then
      found = {}
      for at, member in ipairs(call('ZRANGEBYLEX', p .. 'waited-for', '[' .. limit .. '\t',
        '(' .. limit .. '\t' .. AFTER_ALL)) do
        found[at] = sub(member, #limit + 2)
      end
      waited_lanes[limit] = found
    end
    return found
  end

  -- Look at the limit for this lane again at that time; nil: not by itself.
  function book.alarm(limit, lane, at)
    local alarms = lane_of(lane).alarms
    if at then
      add_to(alarms, limit, at)
    elseif anything_waits or alarms.changes[limit] then
      remove_from(alarms, limit)
    end
  end

  -- The lane's next alarm: when, and at which limit.
  function book.next_alarm(lane)
    local limit, at = first_in(lane_of(lane).alarms)
    return at, limit
  end

  -- Wake a sleeper for a job that could start then.
  function book.wake(lane, due)
    if wakes_put_off then
      wakes_put_off[lane] = true
    else
      wake_for(lane, due)
    end
  end

  -- -- writing ----------------------------------------------------------------------------------

  local function line_text(line)
    member_for(line)
    return table.concat({ line.stage, line.at or '', format('%.0f', line.turn), line.order,
      line.limits, line.base, line.only or '' }, '\t')
  end

  local function write_lines(known)
    local kept, gone = {}, {}
    for tag in pairs(known.changed) do
      local line = known.lines[tag]
      if line then
        kept[#kept + 1], kept[#kept + 2] = tag, line_text(line)
      else
        gone[#gone + 1] = tag
      end
    end
    call_many('HSET', p .. 'lines:' .. known.name, kept)
    call_many('HDEL', p .. 'lines:' .. known.name, gone)
  end

  -- Write what was put off, and know nothing any more.
  function book.write()
    for _, known in pairs(lanes) do
      book.write_jobs(known)
      write_lines(known)
      write_ready(known)
      write_ordered(known.later)
      write_ordered(known.alarms)
      for _, waits in pairs(known.waits) do write_ordered(waits) end
      book.write_turns(known)
    end
    lanes, waited_lanes, anything_waits = {}, {}, nil
    limits.write()
  end

  the_book = book
  return book
end
