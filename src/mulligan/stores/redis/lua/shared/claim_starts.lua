-- Starting jobs during a claim: their leases, what the worker learns of them, and what is charged. ARGV
-- is that of claim.lua, whose sources these functions take from.
-- include: cancel, lease_text, limits, line_taker

local region = ARGV[4]
local turn_steps = ARGV[#ARGV] ~= '' and cjson.decode(ARGV[#ARGV]) or {}
local ids, texts, abouts, leases, taken = {}, {}, {}, {}, 0

-- Note what the worker learns of the next jobs besides their texts.
local function add_about(count, lane_number, counts, state)
  local at, about = #abouts, lane_number .. '\t' .. counts
  if state == '' and abouts[at] == '' and abouts[at - 2] == about then
    abouts[at - 1] = abouts[at - 1] + count
  else
    abouts[at + 1], abouts[at + 2], abouts[at + 3] = about, count, state
  end
end

-- Counts, with the limits of jobs that have nothing more in their state.
local function with_limits(counts, named)
  return named == '' and counts or counts .. '\t' .. named
end

local expired = {}
local function expire(reader, id)
  local queue, state = queue_of(reader.lane), p .. 'state:' .. id
  local job = call('HMGET', state, 'unique_key', 'unique_in', 'gather', 'keep', 'gather_index')
  call('HSET', state, 'ended', 'cancelled', 'ended_at', stamp, 'cancel_reason', EXPIRED)
  call('ZREM', p .. 'expires', id)
  list_ended(id, 'cancelled', queue, job[4])
  free_unique(id, queue, job[1], job[2])
  -- Who awaits it is told when the walk is over.
  if job[3] then expired[#expired + 1] = { job[3], id, job[5] } end
end

-- Whether a job did not start in time.
local function has_expired(id, marks, counts)
  if not has(marks, 'e') or not never_started(counts) then return false end
  return (tonumber(call('HGET', p .. 'state:' .. id, 'expires_at') or nil) or math.huge) <= now
end

-- A job with marks starts or has expired: it is put off no more.
local function stop_delay(reader, id, marks, member)
  if has(marks, 'd') then
    call('ZREM', p .. 'delayed:' .. queue_of(reader.lane), sub(member, 1, 16) .. ':' .. id)
  end
end

-- How far apart the turns of a key are.
local function step_of(lane, key)
  local steps = turn_steps[queue_of(lane)]
  return steps and steps[key]
end

-- The job starts: the limits that it names are charged, and its key has had its turn. Gives these
-- limits.
local function start_in_turn(reader, line)
  if not line then
    if reader.is_mixed then lines().take_turn(reader.lane, '', step_of(reader.lane, '')) end
    return ''
  end
  local limits, costs = line.limits, named_limits().costs_of(line.limits)
  named_limits().start(costs)
  lines().started(line, step_of(reader.lane, line.key), 1)
  return costs.names[1] and limits or ''
end

-- The job that is next in the lane, taken out: id, text, state, member, and the line that it stood
-- in; nil if its line was set aside, or it is unknown.
local function take_next(reader)
  local line = reader.line
  if not line then return take_head(reader) end
  local id, text, state, member = read_first(line)
  local expires = text and has_expired(id, state[3], state[2] or NO_COUNTS)
  local lacking = text and not expires and lines().lacks(line)
  if lacking then
    lines().set_aside(line, lacking)
    return
  end
  line_book().pop(line, 1)
  if not text then lines().left(line) end
  return id, text, state, member, line
end

-- Add a job that starts for the first time and has nothing in its state but where it stands. What is
-- not in its text is the same for all of its lane and limits.
local function add_lined(source, id, text, named)
  local tail = source.tails[named]
  if not tail then
    tail = '\t' .. common_text(FIRST_COUNTS, 'h' .. named, stamp, stamp, region, source.reader.lane)
    source.tails[named] = tail
  end
  taken = taken + 1
  ids[taken], texts[taken] = id, text
  leases[2 * taken - 1], leases[2 * taken] = id, sub(text, 1, 16) .. tail
end

-- Take the head of the lane and charge its limits, unless it has expired or they have no room.
local function take(source)
  local reader = source.reader
  local id, text, state, member, line = take_next(reader)
  if not text then return end
  if state == PLAIN_IN_LINE and #source.limits == 0 and find(text, HAS_SEQUENCE) then
    local named = start_in_turn(reader, line)
    add_lined(source, id, text, named)
    add_about(1, source.lane_number, with_limits(FIRST_COUNTS, named), '')
    return
  end
  -- The worker sees that the text is invalid; it can end the job only under a token.
  if not find(text, HAS_SEQUENCE) then text = sub(member, 1, 16) .. '\t' .. text end
  local counts, used = next_counts(state[2] or NO_COUNTS)
  local flags, permits = state == NO_STATE and '' or 'h', nil
  if not find(counts, '^%d+ 0 ') then flags = flags .. 'r' end
  local marks = state[3]
  if marks and marks ~= '' then
    stop_delay(reader, id, marks, member)
    if has_expired(id, marks, counts) then
      expire(reader, id)
      if line then lines().left(line) end
      return
    end
    if has(marks, 'e') then call('ZREM', p .. 'expires', id) end
    if find(marks, '[gtu]') then flags = flags .. 's' end
  end
  local named = start_in_turn(reader, line)
  for _, limit in ipairs(source.limits) do
    permits = charge(limit, id, permits)
  end
  if permits then
    flags = flags .. 's'
    call('HSET', p .. 'state:' .. id, 'permits', permits)
  end
  taken = taken + 1
  ids[taken], texts[taken] = id, text
  leases[2 * taken - 1], leases[2 * taken] = id, token_of(text, used) .. '\t'
    .. common_text(counts, flags .. named, stamp, stamp, region, reader.lane)
  if #state == 0 then
    add_about(1, source.lane_number, with_limits(counts, named), '')
  else
    add_about(1, source.lane_number, counts, state)
  end
end

-- Take plain jobs from a lane whose head is one, up to so many. The same as `take`, for most of all
-- jobs: they have no limits, what is not in their texts is the same for all of them, and their
-- texts begin with the token of the first claim.
local function take_many(source, count)
  local reader = source.reader
  local tail = '\t' .. common_text(FIRST_COUNTS, '', stamp, stamp, region, reader.lane)
  local from_ids, from_texts, number = reader.ids, reader.texts, taken
  local first, last = take_plain(reader, count)
  for at = first, last do
    local id, text = from_ids[at], from_texts[at]
    number = number + 1
    ids[number], texts[number] = id, text
    leases[2 * number - 1], leases[2 * number] = id, sub(text, 1, 16) .. tail
  end
  taken = number
  add_about(last - first + 1, source.lane_number, FIRST_COUNTS, '')
end

-- Take jobs that have nothing but their key and their limits from the line that is next in the lane,
-- up to so many; whether there were any. The same as `take`, without going on from each to the next.
local function take_run(source, most)
  local reader = source.reader
  local line = reader.line
  local from_ids, from_texts = read_run(reader, line, most)
  local count = #from_ids
  if count == 0 then return false end
  for at = 1, count do add_lined(source, from_ids[at], from_texts[at], line.base) end
  line_book().pop(line, count)
  lines().started(line, step_of(reader.lane, line.key), count)
  add_about(count, source.lane_number, with_limits(FIRST_COUNTS, line.base), '')
  return true
end

-- Take jobs that have nothing but a fairness key, each key in its turn, up to so many; whether there
-- were any. The same as `take` where no job that stands in the lane itself is due.
local function take_keyed(source, most)
  local reader, count = source.reader, 0
  if own_due(reader) then return false end
  while count < most do
    local id, text = lines().start_plain(reader.lane, step_of)
    if not id then break end
    add_lined(source, id, text, '')
    count = count + 1
  end
  if count > 0 then add_about(count, source.lane_number, FIRST_COUNTS, '') end
  return count > 0
end
