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

-- include: workers, claim_starts, sleep

local worker = ARGV[2]
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
