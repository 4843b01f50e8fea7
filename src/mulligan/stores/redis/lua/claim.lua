-- Walk a plan over the lanes and hand its jobs to the worker.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, what it serves, lease seconds, epoch, demand, steps
--          (msgpack: {group, until, share, carry, of}), for each lane a 1 if all that is due there
--          may start when no other lane has jobs, name of the shape, what a sleeper waits for
--          (JSON: lanes {lane, how}, limits, shares {key, lane}), how many tiers each group has,
--          how many lanes there are, the lanes, and of each who takes from it (msgpack: sources
--          {group, tier, waited, yields, limits {kind, key, limit, per, ratio, of}}), how far apart
--          the turns of fairness keys are, where they are not 1 (JSON: by queue, by key), or ''
-- Result   false if the plan is of another epoch; otherwise now, seconds until the plan could
--          yield more or '', a 0 or 1 for each group that says whether a job of it could start; and
--          the ids of the jobs, their texts, and what is not in their texts: number of the lane in
--          the shape, counts and, of those without more in their state, limits, with tabs between,
--          then the number of jobs in a row of which it is true, then '' or what was read of their
--          state: due, counts, marks, claim fields
-- include: base, short_claim

local short = short_claim()
if short then return short end

-- include: many, times, memory, wakeup, lanes, sequences, members

-- include: cancel, workers, line_taker, limits, sleep

local worker, region = ARGV[2], ARGV[4]
local demand = tonumber(ARGV[8])

-- A worker that claims is alive, even before its first beat or after a pause.
if not is_live(worker) then
  go_on_when_full()
  enlist(worker, ARGV[3], region, ARGV[5], tonumber(ARGV[6]), stamp)
end
if tonumber(call('GET', p .. 'epoch') or 0) ~= tonumber(ARGV[7]) then return false end
local slept_in = end_sleep(worker)

local steps, lane_count, lanes_from = cmsgpack.unpack(ARGV[9]), tonumber(ARGV[14]), 14
local readers = open_readers(lanes_from, lane_count, demand)
open_lines(readers, demand)
local turn_steps = ARGV[lanes_from + 2 * lane_count + 1]
turn_steps = turn_steps ~= '' and cjson.decode(turn_steps) or {}

-- The sources of each tier of each group. Those of lanes without jobs are not read. One that yields
-- does not wait where nobody sleeps who would have the job sooner.
local groups = {}
for count in string.gmatch(ARGV[13], '%d+') do
  local tiers = {}
  for tier = 1, count do tiers[tier] = {} end
  groups[#groups + 1] = tiers
end
for number, reader in pairs(readers) do
  for _, source in ipairs(cmsgpack.unpack(ARGV[lanes_from + lane_count + number])) do
    local group, tier, waited, yields, limits = unpack(source)
    if yields and not has_sooner_sleeper(reader.lane, waited) then waited = 0 end
    local sources = groups[group][tier]
    sources[#sources + 1] = { reader = reader, lane_number = number, waited = waited,
      limits = read_limits(limits), tails = {} }
  end
end

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

-- Whether the tier is one lane whose jobs may start as soon as they are due.
local function is_unlimited(tier)
  local source = tier[1]
  return #tier == 1 and source.waited == 0 and #source.limits == 0
end

-- The source of the tier whose first job is next by (due, sequence), if any may start now.
local function first_due(tier)
  if is_unlimited(tier) and has_listed(tier[1].reader) then return tier[1] end
  local best, best_due, best_member
  for _, source in ipairs(tier) do
    local due, member = head(source.reader)
    if due and (source.waited == 0 and due or rounded(due + source.waited)) <= now then
      local sooner = not best or due < best_due
        or (due == best_due and sequence_of(member) < sequence_of(best_member))
      if sooner and all_have_room(source.limits) then
        best, best_due, best_member = source, due, member
      end
    end
  end
  return best
end

-- Take jobs of the tier until there are so many in all, or none may start.
local function take_from(tier, most)
  local unlimited = is_unlimited(tier)
  while taken < most do
    local source = first_due(tier)
    if not source then return end
    if unlimited and has_plain(source.reader) then
      take_many(source, most - taken)
    elseif not unlimited or not source.reader.line
      or not (take_run(source, most - taken) or take_keyed(source, most - taken)) then
      take(source)
    end
  end
end

-- How many jobs the step may take, given how many each group has had in this claim. A share is
-- counted in millionths of what the groups it is `of` get together.
local function room_of(step, counts)
  local group, share, carry, of = step[1], step[3], step[4], step[5]
  local room = math.min(step[2], demand) - taken
  if #of > 0 and room > 0 then
    local shared = room
    for _, other in ipairs(of) do shared = shared + counts[other] end
    room = math.min(room, math.floor((carry + shared * share) / 1000000) - counts[group])
  end
  return room
end

local counts = {}
for number = 1, #groups do counts[number] = 0 end
for _, step in ipairs(steps) do
  local before = taken
  local most = taken + room_of(step, counts)
  for _, tier in ipairs(groups[step[1]]) do take_from(tier, most) end
  counts[step[1]] = counts[step[1]] + taken - before
end

local left = {}
for number, tiers in ipairs(groups) do
  left[number] = '0'
  for _, tier in ipairs(tiers) do
    if first_due(tier) then left[number] = '1' end
  end
end

-- Seconds until the source could yield a job; nil if it is empty or waits for a permit.
local function yields_in(source)
  local due = head(source.reader)
  if not due then return nil end
  local wait = math.max(0, rounded(due + source.waited) - now)
  for _, limit in ipairs(source.limits) do
    if room_in(limit) <= 0 then
      local opens = reopens_in(limit)
      if not opens then return nil end
      wait = math.max(wait, opens)
    end
  end
  return wait
end

local again_in
if taken < demand then
  for _, tiers in ipairs(groups) do
    for _, tier in ipairs(tiers) do
      for _, source in ipairs(tier) do
        local wait = yields_in(source)
        if wait and (not again_in or wait < again_in) then again_in = wait end
      end
    end
  end
  for lane in pairs(wakes_put_off) do
    local due = lines().due_of(lane)
    if due < math.huge then wake_for(lane, due) end
  end
  local wakes = again_in and now + again_in or '+inf'
  begin_sleep(worker, ARGV[11], ARGV[12], wakes, slept_in)
else
  -- This worker sleeps no more: wake another for what is still in these lanes.
  if slept_in then call('HDEL', p .. 'sleepers', worker) end
  for _, reader in pairs(readers) do
    local due = head(reader)
    if due then wake_for(reader.lane, due) end
  end
end

wakes_put_off = nil
finish_lines()
close_readers(readers)
write_windows()
if expired[1] then
  for _, member in ipairs(expired) do miss(member[1], member[2], member[3], EXPIRED, 0) end
  finish_join()
end
if taken > 0 then
  call_many('HSET', running_key(worker), leases)
  call('SADD', p .. 'holders', worker)
end
finish_end()
again_in = again_in and format('%.17g', again_in) or ''
return { stamp, again_in, table.concat(left), ids, texts, abouts }
