-- Lanes. A job stands in a lane as `place:id`, the place in 16 digits, so that members with the
-- same due time sort by it. Fresh lanes are lists in order of arrival; whatever must stand by its
-- due time instead (delayed, returned, let go of a key) stands in a sorted set beside the list.
-- Retry lanes are such sorted sets alone. The head of a lane is the earlier of the two heads.
-- include: base, waking

local sorted_keys, queues, seen_lanes, newcomers = {}, {}, {}, {}
local newest_place, written_place
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

-- A job as it was enqueued is one text: place, time, lane, task and body, with tabs between. Its
-- state, a hash, says only what is different since: a job that waits for its first attempt in the
-- ordinary way, or was done in it, has none.
local function read_header(id)
  local text = call('HGET', p .. 'jobs', id)
  if not text then return nil end
  return match(text, '^(%d+)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t')
end

-- Lane, due time and place of a job, given what its state says of them.
local function whereabouts(id, lane, due, place)
  if not (lane and due and place) then
    local first, created_at, home = read_header(id)
    if not first then return nil end
    lane, due, place = lane or home, due or created_at, place or first
  end
  return lane, tonumber(due) or now, tonumber(place) or 0
end

-- Places grow from job to job and are never given twice. The one that a job's text begins with is
-- also the token of its first claim: they lie so far apart that the tokens of a job are above those
-- of any earlier job of its id. As in core/job.py.
local TOKENS_PER_LIFE = 4096

local function place_text(place)
  return format('%016.0f', place)
end

local function member_of(place, id)
  return place_text(place) .. ':' .. id
end

local function id_of(member)
  return sub(member, 18)
end

local function place_of(member)
  return tonumber(sub(member, 1, 16))
end

local function last_place()
  if not newest_place then
    newest_place = 1 + TOKENS_PER_LIFE * (call('GET', p .. 'sequence') or 0)
    written_place = newest_place
  end
  return newest_place
end

-- Write at once that so many places will be given: the first write of what adds work, which a full
-- memory refuses before anything is changed.
local function reserve_places(count)
  local given = call('INCRBY', p .. 'sequence', count)
  newest_place, written_place = 1 + TOKENS_PER_LIFE * (given - count), 1 + TOKENS_PER_LIFE * given
end

local function next_place()
  newest_place = last_place() + TOKENS_PER_LIFE
  return newest_place
end

local function note_lane(lane)
  if not seen_lanes[lane] then
    call('SADD', p .. 'lanes', lane)
    seen_lanes[lane] = true
  end
end

-- Those that join the end of a line in this script.
local function line_of(lane)
  local line = newcomers[lane]
  if not line then
    line = {}
    newcomers[lane] = line
  end
  return line
end

-- Write what was put off to be written once: the counter, and newcomers at the ends of lines.
local function finish_lanes()
  if newest_place ~= written_place then
    call('SET', p .. 'sequence', (newest_place - 1) / TOKENS_PER_LIFE)
  end
  for lane, members in pairs(newcomers) do
    if members[1] then note_lane(lane) end
    call_many('RPUSH', p .. lane, members)
  end
end

-- Make the job claimable where its due time and place put it.
local function stand(member, lane, due)
  if before_standing then before_standing(lane) end
  note_lane(lane)
  call('ZADD', sorted_key(lane), due, member)
  ring_for(lane, due)
end

-- Let the job join a lane, due after the delay. Gives its due time, its place, and whether it was
-- put off. In a line, a colon after the place says that the job has no state to look at.
local function join(id, lane, delay)
  local place, due = next_place(), now
  if delay ~= 0 then due = rounded(now + delay) end
  if due == now and has_line(lane) then
    local line = line_of(lane)
    line[#line + 1] = place_text(place) .. '!' .. id
    ring_for(lane, due)
  else
    local member = member_of(place, id)
    stand(member, lane, due)
    if due > now then call('ZADD', p .. 'delayed:' .. queue_of(lane), due, member) end
  end
  return due, place, due > now
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
