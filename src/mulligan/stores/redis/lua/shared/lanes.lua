-- Lanes. A job stands in a lane as `sequence:id`, the sequence in 16 digits, so that members with
-- the same due time sort by it. Fresh lanes are lists in order of arrival; whatever must stand by
-- its due time instead (delayed, returned, let go of a key) stands in a sorted set beside the list.
-- Retry lanes are such sorted sets alone. The head of a lane is the earlier of the two heads.
-- include: base, waking

local sorted_keys, queues, seen_lanes, newcomers = {}, {}, {}, {}
local sequence, places, counted
-- The claim script reads ahead in lanes, and must hear of a job that joins one meanwhile.
local before_standing

local function sorted_key(lane)
  local key = sorted_keys[lane]
  if not key then
    local retries = find(lane, '^retry:') or find(lane, '^urgent%-retry:')
    key = p .. (retries and '' or 'due:') .. lane
    sorted_keys[lane] = key
  end
  return key
end

local function has_line(lane)
  return sorted_key(lane) ~= p .. lane
end

-- The queue's name as keys spell it.
local function queue_of(lane)
  local queue = queues[lane]
  if not queue then
    queue = match(lane, '^[^:]*:([^:]*):')
    queues[lane] = queue
  end
  return queue
end

-- The lane of a job that is new, from what it says of itself.
local KINDS = { ['0'] = 'fresh', ['1'] = 'retry', ['2'] = 'urgent', ['3'] = 'urgent-retry' }
local ESCAPES = { ['%'] = '%25', [':'] = '%3A' }

local function escaped(name)
  return (string.gsub(name, '[%%:]', ESCAPES))
end

local function home_lane(queue, region, priority)
  return (KINDS[priority] or priority) .. ':' .. escaped(queue) .. ':' .. escaped(region)
end

-- A job as it was enqueued is one text: sequence, time, queue, region, priority, task and body,
-- with tabs between. Its state, a hash, says only what is different since: a job that waits for
-- its first attempt in the ordinary way has none.
local HEADER_BYTES = 2048

local function read_header(id)
  local text = call('GETRANGE', p .. 'job:' .. id, 0, HEADER_BYTES)
  local place, created_at, queue, region, priority, task =
    match(text, '^(%d+)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t')
  return place, created_at, queue, region, priority, task
end

-- Lane, due time and sequence of a job, given what its state says of them.
local function whereabouts(id, lane, due, place)
  if not (lane and due and place) then
    local first, created_at, queue, region, priority = read_header(id)
    if not first then return nil end
    lane, due, place = lane or home_lane(queue, region, priority), due or created_at, place or first
  end
  return lane, tonumber(due), tonumber(place)
end

local function member_of(place, id)
  return format('%016.0f:%s', place, id)
end

local function id_of(member)
  return sub(member, 18)
end

local function sequence_of(member)
  return tonumber(sub(member, 1, 16))
end

local function read_counters()
  if counted then return end
  local stored = call('HMGET', p .. 'counters', 'sequence', 'places')
  sequence, places, counted = tonumber(stored[1] or 0), tonumber(stored[2] or 0), true
end

-- Write what was put off to be written once: counters, and newcomers at the ends of lines.
local function finish_lanes()
  if counted then
    call('HSET', p .. 'counters', 'sequence', sequence, 'places', places)
  end
  for lane, members in pairs(newcomers) do
    call_many('RPUSH', p .. lane, members)
  end
end

local function note_lane(lane)
  if not seen_lanes[lane] then
    call('SADD', p .. 'lanes', lane)
    seen_lanes[lane] = true
  end
end

-- Make the job claimable at the place that its due time and sequence give it.
local function stand(member, lane, due)
  if before_standing then before_standing(lane) end
  note_lane(lane)
  call('ZADD', sorted_key(lane), due, member)
  ring_for(lane, due)
end

-- Let the job join a lane, due after the delay. Gives its due time, its sequence, and whether it
-- was put off. In a line, a colon after the sequence says that the job has no state to look at.
local function join(id, lane, delay, ordinary)
  read_counters()
  sequence = sequence + 1
  local due = now
  if delay ~= 0 then due = rounded(now + delay) end
  if due == now and has_line(lane) then
    note_lane(lane)
    local line = newcomers[lane]
    if not line then
      line = {}
      newcomers[lane] = line
    end
    line[#line + 1] = format(ordinary and '%016.0f:%s' or '%016.0f!%s', sequence, id)
    ring_for(lane, due)
  else
    local member = member_of(sequence, id)
    stand(member, lane, due)
    if due > now then call('ZADD', p .. 'delayed:' .. queue_of(lane), due, member) end
  end
  return due, sequence, due > now
end

-- Marks are letters that say what is out of the ordinary about a job, so that the ordinary one
-- costs nothing: d was put off, e may expire, g is awaited by another, k has a concurrency key, u
-- has a unique key.
local function has(marks, letter)
  return marks and find(marks, letter, 1, true) ~= nil
end

local function with_delayed(marks, delayed)
  marks = string.gsub(marks or '', 'd', '')
  return delayed and marks .. 'd' or marks
end
