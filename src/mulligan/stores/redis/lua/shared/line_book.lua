-- What is kept of lines, and of the turns of fairness keys: the book of core/lines.py, which is the
-- oracle, under the same names. It is made when it is first asked for, as the limits are.
--
-- A line of a lane is known by its key and the names of its limits, with tabs between: its tag.
-- line_records.lua says where it is stored. `line:LANE:TAG` has its jobs by due time where there are
-- more than one, and `lined:LANE` those of all lines of the lane. Stages: `later:LANE` by due time,
-- `ready:LANE` in order of key, due time and sequence, and `waits:LANE:LIMIT` by turn, due time and
-- sequence.
-- include: insert, line_jobs, line_records, line_turns, many, named_limits, ordered, sequences, times

-- Set by the claim: by lane, whether somebody is to be woken for what is ready there in the end.
local wakes_put_off
-- Set by the claim: how many of those that take turns to read at once.
local turns_piece = 1
local the_book

local function line_book()
  if the_book then return the_book end
  local NO_KEY, AFTER_ALL, ORDER_WIDTH = '', '\255', 39
  local book, limits, lanes = {}, named_limits(), {}
  -- By limit, the lanes of which lines wait there; and whether any did when this script began.
  local waited_lanes, anything_waits = {}, nil

  -- The turn of a line that has not waited with its first job.
  book.NO_TURN = -1

  -- What is known of the lane. Nothing of it is written before `write`, unless it says so.
  local function lane_of(lane)
    local known = lanes[lane]
    if not known then
      known = { name = lane, lines = {}, keys = {}, changed = {}, joined = {}, taken = {},
        waits = {}, first_ready = {}, ready_changes = {}, more_keys = 0,
        later = ordered(p .. 'later:' .. lane), alarms = ordered(p .. 'alarms:' .. lane),
        turns = ordered(p .. 'turns:' .. lane) }
      known.turns.size = turns_piece
      known.turns.on_read = function(members) book.read_ahead(known, members) end
      lanes[lane] = known
    end
    return known
  end

  -- What sorts by due time and sequence as text. Jobs that came together have the same due time.
  local due_texts = {}
  local function due_text(due)
    local text = due_texts[due]
    if not text then
      text = format('%022.6f', due)
      due_texts[due] = text
    end
    return text
  end

  book.due_text = due_text

  function book.order_of(due, sequence)
    return due_text(due) .. ' ' .. sequence_text(sequence)
  end

  -- The line's first job is this one.
  function book.set_first(line, due, sequence, member, limits_text)
    line.due, line.sequence, line.limits = due, sequence, limits_text
    line.due_text, line.first = due_text(due), member
    line.member = nil
  end

  -- The line's first job is gone; it is still known by that, until it is lifted.
  function book.unset_first(line)
    book.member_for(line)
    line.first = nil
  end

  -- The line as a member of a sorted set: the order of its first job, a tab, its tag.
  function book.member_for(line)
    local member = line.member
    if not member then
      member = line.due_text .. ' ' .. sub(line.first, 1, 16) .. '\t' .. line.tag
      line.member = member
    end
    return member
  end

  function book.tag_in(member)
    return sub(member, ORDER_WIDTH + 2)
  end

  local member_for, tag_in = book.member_for, book.tag_in
  keep_records(book, lane_of)
  keep_jobs(book, lane_of)
  keep_turns(book, lane_of)

  -- -- lines ------------------------------------------------------------------------------------

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
  local function ready_at(known, key, offset)
    write_ready(known)
    local found = call('ZRANGEBYLEX', p .. 'ready:' .. known.name, '[' .. key .. '\t',
      '(' .. key .. '\t' .. AFTER_ALL, 'LIMIT', offset, 1)[1]
    return found and sub(found, #key + 2)
  end

  -- `ready:LANE` has the ready lines of keys that have several.
  local function change_ready(known, line, is_ready)
    known.ready_changes[line.key .. '\t' .. member_for(line)] = is_ready
  end

  -- A line of the key is ready.
  local function note_ready(known, line)
    local key, first = book.key(line.lane, line.key), book.first_ready(line.lane, line.key)
    key.ready_count, known.changed[line.key .. '\t'] = key.ready_count + 1, true
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
    key.ready_count, known.changed[line.key .. '\t'] = key.ready_count - 1, true
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
    elseif anything_waits or alarms.changes[limit] or alarms.next == limit then
      remove_from(alarms, limit)
    end
  end

  -- The lane's next alarm: when, and at which limit.
  function book.next_alarm(lane)
    local alarms = lane_of(lane).alarms
    local limit, at = first_in(alarms)
    alarms.next = limit
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

  -- Write what was put off, and know nothing any more.
  function book.write()
    for _, known in pairs(lanes) do
      book.write_jobs(known)
      book.write_records(known)
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
