-- Walk a plan over the lanes and hand its jobs to the worker.
-- KEYS[1]  prefix
-- ARGV     now, worker, worker as JSON, region, what it serves, lease seconds, epoch, demand, name
--          of the shape, shape (msgpack: lanes; gates {kind, key, limit, per, ratio, of}; groups of
--          tiers of sources {lane, waited, gates, yields}), steps (msgpack: {group, until, share,
--          carry, of}), what a sleeper waits for (JSON: lanes {lane, how}, gates, shares {key,
--          lane})
-- Result   false if the plan is of another epoch; otherwise now, seconds until the plan could
--          yield more or '', a 0 or 1 for each group that says whether a job of it could start,
--          and for each job: id, its text, and number of its lane in the shape, due or '', counts
--          and trail with tabs between
-- include: cancelling, workers, reading_ahead, gates

go_on_when_full()
local worker, region = ARGV[2], ARGV[4]
local demand = tonumber(ARGV[8])

keep(worker, ARGV[3], region, ARGV[5], tonumber(ARGV[6]))
if tonumber(call('HGET', p .. 'counters', 'epoch') or 0) ~= tonumber(ARGV[7]) then return false end
get_up(worker)

local shape, steps = cmsgpack.unpack(ARGV[10]), cmsgpack.unpack(ARGV[11])
local groups = shape[3]
local lines = open_lines(shape[1], demand)
-- Sources whose lanes are empty are not looked at again, and those that yield do not wait where
-- nobody sleeps who would have the job sooner.
for _, tiers in ipairs(groups) do
  for number, tier in ipairs(tiers) do
    local present = {}
    for _, source in ipairs(tier) do
      local line = lines[source[1]]
      if line then
        present[#present + 1] = source
        if source[4] and not is_sooner(line.lane, source[2], worker) then source[2] = 0 end
      end
    end
    tiers[number] = present
  end
end
local gates = open_gates(shape[2])

local claimed, taken = { stamp, '', '' }, 0
local leases, ids = {}, {}

local function expire(line, id, key)
  local queue, state = queue_of(line.lane), p .. 'state:' .. id
  local job = call('HMGET', state, 'unique_key', 'unique_in', 'gather')
  call('HSET', state, 'ended', 'cancelled', 'ended_at', stamp,
    'cancel_reason', 'expired before it could start')
  call('ZREM', p .. 'expires', id)
  list_ended(id, 'cancelled', queue)
  free_unique(id, queue, job[1], job[2])
  if key then let_go(key) end
  miss(job[3], id, 'cancelled')
end

-- What only a job out of the ordinary needs: whether it may start, and the permit of its key.
local function admit(line, id, text, state, member, token)
  local marks, delayed = state[3], p .. 'delayed:' .. queue_of(line.lane)
  local more = call('HMGET', p .. 'state:' .. id, 'expires_at', 'concurrency_key',
    'concurrency_limit')
  local key, limit = more[2], more[3] or '1'
  member = sub(member, 1, 16) .. ':' .. id
  if has(marks, 'e') and token == 1 and tonumber(more[1]) <= now then
    if has(marks, 'd') then call('ZREM', delayed, member) end
    expire(line, id, key)
    return false
  end
  if key and permits_used('key:' .. key) >= tonumber(limit) then
    local due = tonumber(state[1] or match(text, '^%d+\t([^\t]*)'))
    hold(member, line.lane, due, key, limit)
    return false
  end
  if has(marks, 'd') then call('ZREM', delayed, member) end
  if has(marks, 'e') then call('ZREM', p .. 'expires', id) end
  return true, key and charge('key:' .. key, id)
end

-- Take the first job of the line and charge the gates; false if it had to be set aside.
local function take(line, lane_number, gate_numbers)
  local id, text, state, member = take_head(line)
  if not text then return false end
  local token, counts = next_counts(state[2])
  local flags, permits = '', nil
  if state[2] and not find(counts, '^%d+ 0 ') then flags = 'r' end
  if state[3] and state[3] ~= '' then
    local admitted
    admitted, permits = admit(line, id, text, state, member, token)
    if not admitted then return false end
    if find(state[3], '[gu]') then flags = flags .. 's' end
  end
  for at = 1, #gate_numbers do
    permits = pass(gates[gate_numbers[at]], id, permits)
  end
  if permits then
    flags = flags .. 's'
    call('HSET', p .. 'state:' .. id, 'permits', permits)
  end
  local lease, about = line.lease, line.about
  if flags ~= '' or state[2] or not lease then
    lease = lease_text(counts, flags, stamp, stamp, region, line.lane, worker)
    if flags == '' and not state[2] then line.lease = lease end
  end
  if state ~= NO_STATE or not about then
    about = lane_number .. '\t' .. (state[1] or '') .. '\t' .. counts .. '\t' .. (state[4] or '')
    if state == NO_STATE then line.about = about end
  end
  ids[taken + 1] = id
  leases[2 * taken + 1], leases[2 * taken + 2] = id, lease
  local at = 3 * taken + 3
  claimed[at + 1], claimed[at + 2], claimed[at + 3] = id, text, about
  return true
end

-- The source of the tier whose first job is next by (due, sequence), if any may start now.
local function first_due(tier)
  local only = #tier == 1 and tier[1]
  if only and only[2] == 0 and #only[3] == 0 and has_listed(lines[only[1]]) then return only end
  local best, best_due, best_member
  for at = 1, #tier do
    local source = tier[at]
    local line = lines[source[1]]
    local due, member = head(line)
    local startable
    if due and source[2] ~= 0 then startable = rounded(due + source[2]) else startable = due end
    if due and startable <= now then
      local sooner = not best or due < best_due
        or (due == best_due and sequence_of(member) < sequence_of(best_member))
      if sooner and all_open(gates, source[3]) then
        best, best_due, best_member = source, due, member
      end
    end
  end
  return best
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
  local room = room_of(step, counts)
  for _, tier in ipairs(groups[step[1]]) do
    while room > 0 do
      local source = first_due(tier)
      if not source then break end
      if take(lines[source[1]], source[1], source[3]) then
        taken, room = taken + 1, room - 1
        counts[step[1]] = counts[step[1]] + 1
      end
    end
  end
end

local left = {}
for number, tiers in ipairs(groups) do
  left[number] = '0'
  for _, tier in ipairs(tiers) do
    if first_due(tier) then left[number] = '1' end
  end
end
claimed[3] = table.concat(left)

-- Seconds until the source could yield a job; nil if it is empty or waits for a permit.
local function yields_in(source)
  local line = lines[source[1]]
  local due = head(line)
  if not due then return nil end
  local wait = math.max(0, rounded(due + source[2]) - now)
  for _, number in ipairs(source[3]) do
    local gate = gates[number]
    if gate_room(gate) <= 0 then
      local opens = reopens_in(gate)
      if not opens then return nil end
      wait = math.max(wait, opens)
    end
  end
  return wait
end

if taken < demand then
  local again_in
  for _, tiers in ipairs(groups) do
    for _, tier in ipairs(tiers) do
      for _, source in ipairs(tier) do
        local wait = yields_in(source)
        if wait and (not again_in or wait < again_in) then again_in = wait end
      end
    end
  end
  if again_in then claimed[2] = format('%.17g', again_in) end
  lie_down(worker, ARGV[9], ARGV[12], again_in and now + again_in or '+inf')
else
  -- This worker comes for nothing more: what still stands here is for another sleeper.
  for _, line in pairs(lines) do
    local due = head(line)
    if due then ring_for(line.lane, due) end
  end
end

close_lines(lines)
close_gates()
if taken > 0 then
  call_many('HSET', p .. 'running', leases)
  call_many('SADD', p .. 'running:' .. worker, ids)
  call('SADD', p .. 'holders', worker)
end
finish_ending()
return claimed
