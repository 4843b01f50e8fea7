-- What is kept of lines, and of the turns of fairness keys: the book of core/lines.py, under the same
-- names. It is made when it is first asked for, as the limits are.
--
-- A line of a lane is known by its key and the names of its limits, with tabs between: its tag.
-- `lines:LANE` has by tag: stage, limit where it waits, turn, due time and sequence of its first
-- job, the limits of that job, and the limits of jobs that have no state to be asked for theirs.
-- `line:LANE:TAG` has its jobs by due time, and `lined:LANE` those of all lines of the lane.
-- Stages: `later:LANE` by due time, `ready:LANE` in order of key, due time and sequence, and
-- `waits:LANE:LIMIT` by turn, due time and sequence.
-- include: insert, many, members, named_limits, ordered, sequences, times

-- Set by the claim: by lane, whether somebody is to be woken for what is ready there in the end.
local wakes_put_off
local the_book

local function line_book()
  if the_book then return the_book end
  local NO_KEY, AFTER_ALL, ORDER_WIDTH = '', '\255', 39
  local LINE = '^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$'
  local book, limits, lanes = {}, named_limits(), {}
  -- By limit, the lanes of which lines wait there; and whether any did when this script began.
  local waited_lanes, anything_waits = {}, nil

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
  local function member_for(line)
    if line.member_of ~= line.sequence then
      line.sequence_text = sequence_text(line.sequence)
      line.member = format('%022.6f ', line.due) .. line.sequence_text .. '\t' .. line.tag
      line.member_of = line.sequence
    end
    return line.member
  end

  local function tag_in(member)
    return sub(member, ORDER_WIDTH + 2)
  end

  -- -- jobs -------------------------------------------------------------------------------------

  local function jobs_key(line)
    return p .. 'line:' .. line.lane .. ':' .. line.tag
  end

  -- What has joined the line in this script and is yet to be written.
  local function write_joined(line)
    if line.joined[1] then
      call_many('ZADD', jobs_key(line), line.joined)
      line.joined = {}
    end
  end

  -- What was taken from the head of the line and is yet to be removed; it is read anew from now on.
  local function write_popped(line)
    local reader = line.reader
    if reader then
      local popped = reader.from + (reader.at - 1) / 2
      if popped > 0 then call('ZREMRANGEBYRANK', jobs_key(line), 0, popped - 1) end
      line.reader = nil
    end
  end

  -- The job stands in the line. The sign before its id: `=` if it has no more in its state than its
  -- key and the limits of the line, `:` if that must be looked at.
  function book.add(line, id, due, sequence, limits_text, is_plain)
    local known = lane_of(line.lane)
    local sign = is_plain and limits_text == line.base and '=' or ':'
    local member, score = sequence_text(sequence) .. sign .. id, due == now and stamp or number_text(due)
    local at, all = #line.joined, #known.joined
    line.joined[at + 1], line.joined[at + 2] = score, member
    known.joined[all + 1], known.joined[all + 2] = score, member
    if line.reader then write_popped(line) end
  end

  local function write_all_joined(known)
    if known.joined[1] then
      note_lane(known.name)
      call_many('ZADD', p .. 'lined:' .. known.name, known.joined)
      known.joined = {}
    end
  end

  -- The job stands in the line no more.
  function book.remove(line, id, sequence)
    write_popped(line)
    write_joined(line)
    write_all_joined(lane_of(line.lane))
    local text = sequence_text(sequence)
    call('ZREM', jobs_key(line), text .. '=' .. id, text .. ':' .. id)
    call('ZREM', p .. 'lined:' .. line.lane, text .. '=' .. id, text .. ':' .. id)
  end

  -- The first jobs of a line are read in runs, each longer than the one before, and those that are
  -- taken are removed when the script ends.
  local function reader_of(line)
    local reader = line.reader
    if not reader then
      write_joined(line)
      reader = { at = 1, from = 0, size = 2, jobs = {} }
      line.reader = reader
    end
    if reader.at > #reader.jobs and not reader.over then
      reader.from, reader.at = reader.from + #reader.jobs / 2, 1
      reader.jobs = call('ZRANGE', jobs_key(line), reader.from, reader.from + reader.size - 1,
        'WITHSCORES')
      reader.over = #reader.jobs < 2 * reader.size
      reader.size = math.min(4 * reader.size, CHUNK)
    end
    return reader
  end

  -- The first job of a line: its member and its due time; nil if it has none.
  function book.first_job(line)
    local reader = reader_of(line)
    return reader.jobs[reader.at], tonumber(reader.jobs[reader.at + 1])
  end

  -- The first jobs of a line, up to so many: members and due times from an index of a list on.
  function book.first_jobs(line, count)
    local reader = reader_of(line)
    if (#reader.jobs - reader.at + 1) / 2 < count and not reader.over then
      reader.from, reader.at = reader.from + (reader.at - 1) / 2, 1
      reader.jobs = call('ZRANGE', jobs_key(line), reader.from, reader.from + count - 1,
        'WITHSCORES')
      reader.over = #reader.jobs < 2 * count
    end
    return reader.jobs, reader.at
  end

  -- Take the first jobs out of the line, so many that were read.
  function book.pop(line, count)
    local reader, taken = reader_of(line), lane_of(line.lane).taken
    for _ = 1, count do
      taken[#taken + 1] = reader.jobs[reader.at]
      reader.at = reader.at + 2
    end
  end

  -- Due time, sequence and limits of the first job of a line; nil if it has none.
  function book.first_of(line)
    local member, due = book.first_job(line)
    if not member then return nil end
    local limits_text = line.base
    if sub(member, 17, 17) ~= '=' then
      limits_text = call('HGET', p .. 'state:' .. id_of(member), 'limits') or ''
    end
    return due, sequence_of(member), limits_text
  end

  -- -- lines ------------------------------------------------------------------------------------

  -- A line that the book does not have.
  function book.new_line(lane, tag, base)
    return { lane = lane, tag = tag, key = match(tag, '^[^\t]*'), base = base, due = 0, sequence = 0,
      limits = base, turn = 0, stage = 'lifted', joined = {} }
  end

  local function read_line(known, tag, text)
    local line = false
    if text then
      local stage, at, turn, due, sequence, limits_text, base = match(text, LINE)
      line = book.new_line(known.name, tag, base)
      line.stage, line.at, line.turn = stage, at ~= '' and at or nil, tonumber(turn)
      line.due, line.sequence, line.limits = tonumber(due), tonumber(sequence), limits_text
    end
    known.lines[tag] = line
    return line
  end

  -- The line, if it has jobs.
  function book.line(lane, tag)
    local known = lane_of(lane)
    local line = known.lines[tag]
    if line ~= nil then return line end
    return read_line(known, tag, call('HGET', p .. 'lines:' .. lane, tag))
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
    write_popped(line)
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

  -- -- turns ------------------------------------------------------------------------------------

  local function turns_of(lane)
    local known = lane_of(lane)
    if not known.present then
      local keyed, present = match(call('HGET', p .. 'fair', lane) or '0 0', '^(%d+) (%d+)$')
      known.keyed, known.present = tonumber(keyed), tonumber(present)
    end
    return known
  end

  -- So many more lines of the lane have a fairness key; gives how many have.
  function book.count_keyed(lane, by)
    local known = turns_of(lane)
    known.keyed, known.turns_changed = known.keyed + by, true
    return known.keyed
  end

  -- Whether a line of the lane has a fairness key.
  function book.is_fair(lane)
    return turns_of(lane).keyed > 0
  end

  -- The highest turn in which a job has started, since the lane became fair.
  function book.present_turn(lane)
    return turns_of(lane).present
  end

  -- A key as it is kept: turn, how many of its lines are ready, and the first of them.
  local function read_key(known, name, text)
    local turn, ready_count, ready = match(text or '0\t0\t', '^(%d+)\t(%d+)\t(.*)$')
    local key = { lane = known.name, name = name, turn = tonumber(turn),
      ready_count = tonumber(ready_count), ready = ready ~= '' and ready or nil }
    key.put_turn, key.put_ready, key.put_count = key.turn, key.ready, key.ready_count
    key.is_idle = text and not key.ready
    known.keys[name] = key
    return key
  end

  -- The fairness key; one that the lane does not know has turn 0. Its `ready` is the first of its
  -- ready lines, as `turns:LANE` has it.
  function book.key(lane, name)
    local known = lane_of(lane)
    return known.keys[name] or read_key(known, name, call('HGET', p .. 'keys:' .. lane, name))
  end

  -- The `ready` of a key whose first ready line is this one.
  function book.ready_of(line)
    return line and member_for(line) or nil
  end

  -- Keep the key as it is now.
  function book.put_key(key)
    local known = lane_of(key.lane)
    if key.put_ready ~= key.ready or key.put_turn ~= key.turn then
      known.first_key = nil
      if key.put_ready then
        remove_from(known.turns, key.put_ready)
        known.more_keys = known.more_keys - 1
      end
      if key.ready then
        add_to(known.turns, key.ready, key.turn)
        known.more_keys = known.more_keys + 1
      end
    elseif key.put_count == key.ready_count then
      return
    end
    known.changed_keys[key.name] = true
    key.put_turn, key.put_ready, key.put_count = key.turn, key.ready, key.ready_count
  end

  -- Those who take turns are read in pieces: read their lines and keys at once too.
  function book.read_ahead(known, members)
    local tags, names = {}, {}
    for at = 1, #members, 2 do
      local tag = tag_in(members[at])
      local name = match(tag, '^[^\t]*')
      if known.lines[tag] == nil then tags[#tags + 1] = tag end
      if not known.keys[name] then names[#names + 1] = name end
    end
    local texts = read_many(p .. 'lines:' .. known.name, tags, 1, #tags)
    for at, tag in ipairs(tags) do read_line(known, tag, texts[at]) end
    texts = read_many(p .. 'keys:' .. known.name, names, 1, #names)
    for at, name in ipairs(names) do read_key(known, name, texts[at]) end
  end

  -- Of the keys with a ready line the one with the lowest (turn, due, sequence).
  function book.first_key(lane)
    local known = lane_of(lane)
    if known.first_key == nil then
      local first = first_in(known.turns)
      known.first_key = first and book.key(lane, book.line(lane, tag_in(first)).key) or false
    end
    return known.first_key
  end

  -- Whether other keys than the first have ready lines.
  function book.has_other_keys(lane)
    local known = lane_of(lane)
    known.key_count = known.key_count or call('ZCARD', known.turns.key)
    return known.key_count + known.more_keys > 1
  end

  -- The lane's present turn is this one, if it is not past it already.
  function book.pass_to(lane, turn)
    local known = turns_of(lane)
    if turn > known.present then known.present, known.turns_changed = turn, true end
  end

  -- No line of the lane has a key: all turns begin anew.
  function book.end_turns(lane)
    local known, key = turns_of(lane), book.key(lane, NO_KEY)
    call('DEL', p .. 'turns:' .. lane, p .. 'keys:' .. lane, p .. 'idle:' .. lane)
    known.present, known.turns_changed, known.key_count, known.more_keys = 0, true, 0, 0
    known.turns, known.first_key = ordered(known.turns.key, true), nil
    known.keys, known.changed_keys = { [NO_KEY] = key }, {}
    key.turn, key.put_turn, key.put_ready, key.put_count, key.is_idle = 0, 0, nil, 0, nil
    book.put_key(key)
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
    return table.concat({ line.stage, line.at or '', format('%.0f', line.turn),
      number_text(line.due), sequence_text(line.sequence), line.limits, line.base }, '\t')
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

  -- Keys with ready lines, and in `idle:LANE` those without whose last turn is not past.
  local function write_keys(known)
    local kept, idle, gone, busy = {}, {}, {}, {}
    turns_of(known.name)
    for name in pairs(known.changed_keys) do
      local key = known.keys[name]
      local is_past = not key.ready and key.turn <= known.present
      local turn = format('%.0f', key.turn)
      if is_past then
        gone[#gone + 1] = name
      else
        kept[#kept + 1] = name
        kept[#kept + 1] = turn .. '\t' .. format('%.0f', key.ready_count) .. '\t' .. (key.ready or '')
        if not key.ready then idle[#idle + 1], idle[#idle + 2] = turn, name end
      end
      if key.is_idle and (key.ready or is_past) then busy[#busy + 1] = name end
    end
    call_many('HSET', p .. 'keys:' .. known.name, kept)
    call_many('HDEL', p .. 'keys:' .. known.name, gone)
    call_many('ZADD', p .. 'idle:' .. known.name, idle)
    call_many('ZREM', p .. 'idle:' .. known.name, busy)
  end

  local function write_turns(known)
    if known.keyed == 0 then
      call('HDEL', p .. 'fair', known.name)
    else
      call('HSET', p .. 'fair', known.name, format('%.0f %.0f', known.keyed, known.present))
    end
    local idle = p .. 'idle:' .. known.name
    local past = call('ZRANGEBYSCORE', idle, '-inf', format('%.0f', known.present))
    call_many('HDEL', p .. 'keys:' .. known.name, past)
    call_many('ZREM', idle, past)
  end

  -- Write what was put off, and know nothing any more.
  function book.write()
    for lane, known in pairs(lanes) do
      for _, line in pairs(known.lines) do
        if line then
          write_popped(line)
          write_joined(line)
        end
      end
      write_all_joined(known)
      call_many('ZREM', p .. 'lined:' .. lane, known.taken)
      write_lines(known)
      write_ready(known)
      write_ordered(known.later)
      write_ordered(known.alarms)
      write_ordered(known.turns)
      for _, waits in pairs(known.waits) do write_ordered(waits) end
      if next(known.changed_keys) then write_keys(known) end
      if known.turns_changed then write_turns(known) end
    end
    lanes, waited_lanes, anything_waits = {}, {}, nil
    limits.write()
  end

  the_book = book
  return book
end
