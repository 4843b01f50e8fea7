-- What is kept of lines, and of the turns of fairness keys: the book of core/lines.py, under the same
-- names. It is made when it is first asked for, as the limits are.
--
-- A line of a lane is known by its key and the names of its limits, with tabs between: its tag.
-- `lines:LANE` has by tag: stage, limit where it waits, turn, due time and sequence of its first
-- job, the limits of that job, and the limits of jobs that have no state to be asked for theirs.
-- `line:LANE:TAG` has its jobs by due time, and `lined:LANE` those of all lines of the lane.
-- Stages: `later:LANE` by due time, `ready:LANE` in order of key, due time and sequence, and
-- `waits:LANE:LIMIT` by turn, due time and sequence.
-- include: insert, many, members, named_limits, sequences, times

-- Set by the claim: by lane, whether somebody is to be woken for what is ready there in the end.
local wakes_put_off
local the_book

local function line_book()
  if the_book then return the_book end
  local FOREVER, NO_KEY = math.huge, ''
  local book, lanes, limits = { now = now }, {}, named_limits()
  local AFTER_ALL = '\255'
  -- By lane and limit the first line that waits there, and by limit the lanes of which some do.
  local first_waiting, waited_lanes = {}, {}

  local function lane_of(lane)
    local known = lanes[lane]
    if not known then
      known = { name = lane, lines = {}, changed = {}, joined = {}, keys = {}, changed_keys = {},
        first_ready = {}, alarms = {}, taken = {} }
      lanes[lane] = known
    end
    return known
  end

  -- What sorts by due time and sequence as text.
  function book.order_of(due, sequence)
    return format('%022.6f %s', due, sequence_text(sequence))
  end

  local function order_text(line)
    return book.order_of(line.due, line.sequence)
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
    local member, score = sequence_text(sequence) .. sign .. id, number_text(due)
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
      reader = { at = 1, from = 0, size = 1, jobs = {} }
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

  local LINE = '^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$'

  -- A line that the book does not have.
  function book.new_line(lane, tag, base)
    return { lane = lane, tag = tag, key = match(tag, '^[^\t]*'), base = base, due = 0, sequence = 0,
      limits = base, turn = 0, stage = 'lifted', joined = {} }
  end

  -- The line, if it has jobs.
  function book.line(lane, tag)
    local known = lane_of(lane)
    local line = known.lines[tag]
    if line == nil then
      local text = call('HGET', p .. 'lines:' .. lane, tag)
      line = false
      if text then
        local stage, at, turn, due, sequence, limits_text, base = match(text, LINE)
        line = book.new_line(lane, tag, base)
        line.stage, line.at, line.turn = stage, at ~= '' and at or nil, tonumber(turn)
        line.due, line.sequence, line.limits = tonumber(due), tonumber(sequence), limits_text
      end
      known.lines[tag] = line
    end
    return line
  end

  local function waits_key(lane, limit)
    return p .. 'waits:' .. lane .. ':' .. limit
  end

  local function waits_in(lane)
    first_waiting[lane] = first_waiting[lane] or {}
    return first_waiting[lane]
  end

  -- Take the line out of its stage, if it is in one.
  function book.lift(line)
    local known, stage = lane_of(line.lane), line.stage
    if stage == 'later' then
      call('ZREM', p .. 'later:' .. line.lane, order_text(line) .. '\t' .. line.tag)
      known.first_later = nil
    elseif stage == 'ready' then
      call('ZREM', p .. 'ready:' .. line.lane,
        line.key .. '\t' .. order_text(line) .. '\t' .. line.tag)
      if known.first_ready[line.key] == line then known.first_ready[line.key] = nil end
    elseif stage == 'waiting' then
      local key = waits_key(line.lane, line.at)
      call('ZREM', key, order_text(line) .. '\t' .. line.tag)
      waits_in(line.lane)[line.at], waited_lanes[line.at] = nil, nil
      if call('EXISTS', key) == 0 then
        call('ZREM', p .. 'waited-for', line.at .. '\t' .. line.lane)
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
      call('ZADD', p .. 'later:' .. line.lane, number_text(line.due),
        order_text(line) .. '\t' .. line.tag)
      known.first_later = nil
    elseif stage == 'ready' then
      call('ZADD', p .. 'ready:' .. line.lane, 0,
        line.key .. '\t' .. order_text(line) .. '\t' .. line.tag)
      local first = known.first_ready[line.key]
      if first == false or (first and order_text(line) < order_text(first)) then
        known.first_ready[line.key] = line
      end
    elseif stage == 'waiting' then
      call('ZADD', waits_key(line.lane, line.at), format('%.0f', line.turn),
        order_text(line) .. '\t' .. line.tag)
      call('ZADD', p .. 'waited-for', 0, line.at .. '\t' .. line.lane)
      waits_in(line.lane)[line.at], waited_lanes[line.at] = nil, nil
    end
  end

  -- Forget a line that has no jobs any more; the last one with a key ends the turns.
  function book.drop(line)
    local known = lane_of(line.lane)
    write_popped(line)
    known.lines[line.tag], known.changed[line.tag] = false, true
    if line.key ~= NO_KEY and book.count_keyed(line.lane, -1) == 0 then book.end_turns(line.lane) end
  end

  -- The line that a member of a sorted set names after its order.
  local function line_in(lane, member)
    return member and book.line(lane, match(member, '^[^\t]*\t(.*)$'))
  end

  -- Of the lines whose first job is not due, the one that is due first.
  function book.first_later(lane)
    local known = lane_of(lane)
    if known.first_later == nil then
      known.first_later = line_in(lane, call('ZRANGE', p .. 'later:' .. lane, 0, 0)[1]) or false
    end
    return known.first_later
  end

  -- Of the ready lines of the key the first by (due, sequence).
  function book.first_ready(lane, key)
    local known = lane_of(lane)
    local line = known.first_ready[key]
    if line == nil then
      local found = call('ZRANGEBYLEX', p .. 'ready:' .. lane, '[' .. key .. '\t',
        '(' .. key .. '\t' .. AFTER_ALL, 'LIMIT', 0, 1)[1]
      line = found and line_in(lane, sub(found, #key + 2)) or false
      known.first_ready[key] = line
    end
    return line
  end

  -- Of the lines of the lane that wait at the limit, the first in order.
  function book.first_waiting(limit, lane)
    local waiting = waits_in(lane)
    local line = waiting[limit]
    if line == nil then
      line = line_in(lane, call('ZRANGE', waits_key(lane, limit), 0, 0)[1]) or false
      waiting[limit] = line
    end
    return line
  end

  -- -- limits -----------------------------------------------------------------------------------

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
    local alarms, key = lane_of(lane).alarms, p .. 'alarms:' .. lane
    if alarms[limit] == nil then
      alarms[limit] = tonumber(call('ZSCORE', key, limit) or nil) or false
    end
    if alarms[limit] == (at or false) then return end
    alarms[limit], lane_of(lane).next_alarm = at or false, nil
    if at then
      call('ZADD', key, number_text(at), limit)
    else
      call('ZREM', key, limit)
    end
  end

  -- The lane's next alarm: when, and at which limit.
  function book.next_alarm(lane)
    local known = lane_of(lane)
    if not known.next_alarm then
      known.next_alarm = call('ZRANGE', p .. 'alarms:' .. lane, 0, 0, 'WITHSCORES')
    end
    return tonumber(known.next_alarm[2]), known.next_alarm[1]
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

  -- The fairness key; one that the lane does not know has turn 0. Its `ready` is the order of the
  -- first of its ready lines.
  function book.key(lane, name)
    local keys = lane_of(lane).keys
    local key = keys[name]
    if not key then
      local text = call('HGET', p .. 'keys:' .. lane, name)
      local turn, ready = match(text or '0\t', '^(%d+)\t(.*)$')
      key = { lane = lane, name = name, turn = tonumber(turn), ready = ready ~= '' and ready or nil }
      key.is_idle = text and not key.ready
      key.put_turn, key.put_ready = key.turn, key.ready
      keys[name] = key
    end
    return key
  end

  -- Keep the key as it is now; `turns:LANE` has those with ready lines, `idle:LANE` the others.
  function book.put_key(key)
    local known = lane_of(key.lane)
    if key.put_ready == key.ready and key.put_turn == key.turn then return end
    known.changed_keys[key.name], known.first_key = true, nil
    local turns = p .. 'turns:' .. key.lane
    if key.put_ready and key.put_ready ~= key.ready then
      call('ZREM', turns, key.put_ready .. '\t' .. key.name)
    end
    if key.ready then
      call('ZADD', turns, format('%.0f', key.turn), key.ready .. '\t' .. key.name)
    end
    key.put_turn, key.put_ready = key.turn, key.ready
  end

  -- The `ready` of a key whose first ready line is this one.
  function book.ready_of(line)
    return line and order_text(line) or nil
  end

  -- Of the keys with a ready line the one with the lowest (turn, due, sequence).
  function book.first_key(lane)
    local known = lane_of(lane)
    if known.first_key == nil then
      local first = call('ZRANGE', p .. 'turns:' .. lane, 0, 1)
      known.first_key = first[1] and book.key(lane, match(first[1], '^[^\t]*\t(.*)$')) or false
      known.has_other_keys = first[2] ~= nil
    end
    return known.first_key
  end

  -- Whether other keys than the first have ready lines.
  function book.has_other_keys(lane)
    return book.first_key(lane) and lane_of(lane).has_other_keys
  end

  -- What the second ready line of the key is ordered by; nil if there is none.
  function book.second_ready(lane, key)
    local found = call('ZRANGEBYLEX', p .. 'ready:' .. lane, '[' .. key .. '\t',
      '(' .. key .. '\t' .. AFTER_ALL, 'LIMIT', 1, 1)[1]
    return found and match(found, '^[^\t]*', #key + 2)
  end

  -- The lane's present turn is this one, if it is not past it already.
  function book.pass_to(lane, turn)
    local known = turns_of(lane)
    if turn > known.present then known.present, known.turns_changed = turn, true end
  end

  -- No line of the lane has a key: all turns begin anew.
  function book.end_turns(lane)
    local known = turns_of(lane)
    known.present, known.turns_changed = 0, true
    local first = book.first_ready(lane, NO_KEY)
    call('DEL', p .. 'turns:' .. lane, p .. 'keys:' .. lane, p .. 'idle:' .. lane)
    known.keys, known.changed_keys, known.first_key = {}, {}, nil
    if first then
      local key = book.key(lane, NO_KEY)
      key.ready = order_text(first)
      book.put_key(key)
    end
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

  local function write_line(known, tag)
    local line, key = known.lines[tag], p .. 'lines:' .. known.name
    if line then
      call('HSET', key, tag, table.concat({ line.stage, line.at or '', format('%.0f', line.turn),
        number_text(line.due), sequence_text(line.sequence), line.limits, line.base }, '\t'))
    else
      call('HDEL', key, tag)
    end
  end

  local function write_key(known, name)
    local key, hash, idle = known.keys[name], p .. 'keys:' .. known.name, p .. 'idle:' .. known.name
    if key.ready or key.turn > known.present then
      call('HSET', hash, name, format('%.0f', key.turn) .. '\t' .. (key.ready or ''))
      if not key.ready then call('ZADD', idle, format('%.0f', key.turn), name) end
    else
      call('HDEL', hash, name)
    end
    if key.is_idle and (key.ready or key.turn <= known.present) then call('ZREM', idle, name) end
  end

  local function write_turns(known)
    turns_of(known.name)
    for name in pairs(known.changed_keys) do write_key(known, name) end
    if known.turns_changed then
      if known.keyed == 0 then
        call('HDEL', p .. 'fair', known.name)
      else
        call('HSET', p .. 'fair', known.name, format('%.0f %.0f', known.keyed, known.present))
      end
      -- Keys without work whose turn is past are forgotten.
      local idle = p .. 'idle:' .. known.name
      local past = call('ZRANGEBYSCORE', idle, '-inf', format('%.0f', known.present))
      call_many('HDEL', p .. 'keys:' .. known.name, past)
      call_many('ZREM', idle, past)
    end
    known.changed_keys, known.keys, known.turns_changed, known.first_key = {}, {}, nil, nil
  end

  -- Write what was put off.
  function book.write()
    for lane, known in pairs(lanes) do
      for tag, line in pairs(known.lines) do
        if line then
          write_popped(line)
          write_joined(line)
        end
      end
      for tag in pairs(known.changed) do write_line(known, tag) end
      known.changed = {}
      write_all_joined(known)
      call_many('ZREM', p .. 'lined:' .. lane, known.taken)
      known.taken = {}
      if next(known.changed_keys) or known.turns_changed then write_turns(known) end
    end
    limits.write()
  end

  book.room_at = limits.room_at
  the_book = book
  return book
end
