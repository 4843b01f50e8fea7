-- Accepting new jobs. A job takes five values: id, number of its lane, text without sequence and
-- time, delay, and the rest as JSON or ''. A lane takes one: its name.
-- include: unique, gathering

local new_lanes, new_jobs, new_places, added = {}, {}, {}, {}
local JOB_WIDTH = 5

-- Read `count` lanes from ARGV[first] on; gives where the next value stands.
local function read_lanes(first, count)
  for at = 1, count do new_lanes[at] = ARGV[first + at - 1] end
  return first + count
end

-- Note what is out of the ordinary about a new job in its state.
local function note_state(id, lane, due, delayed, more)
  local fields, marks = {}, ''
  local function note(name, value, mark)
    if not value then return end
    local at = #fields
    fields[at + 1], fields[at + 2] = name, value
    marks = marks .. (mark or '')
  end
  local expires_at = more.expires and now + more.expires
  note('due', delayed and number_text(due), 'd')
  note('unique_key', more.unique_key, 'u')
  note('unique_in', more.unique_in)
  note('concurrency_key', more.concurrency_key, 'k')
  note('concurrency_limit', more.concurrency_limit)
  note('expires_at', expires_at and number_text(expires_at), 'e')
  note('gather', more.gather, 'g')
  note('place', more.place)
  if more.awaits then
    note('awaits', more.awaits)
    note('lane', lane)
    note('sequence', 0)
  end
  note('marks', marks)
  call('HSET', p .. 'state:' .. id, unpack(fields))
  if more.unique_key then
    call('HSET', unique_keys(queue_of(lane), more.unique_in), more.unique_key, id)
  end
  if expires_at then call('ZADD', p .. 'expires', expires_at, id) end
end

-- Where a new job stands: its due time, its sequence, and whether it was put off.
local function place_new(id, lane, delay, more)
  if not (more and more.awaits) then return join(id, lane, delay, not more) end
  read_counters()
  count_gathering(queue_of(lane), 1)
  return now, 0, false
end

-- Accept the job that begins at ARGV[at]; gives its id, or that of the job before it and true.
-- `unknown` says that no job of that id was stored when the script began.
local function add(at, unknown)
  local id, lane, delay = ARGV[at], new_lanes[tonumber(ARGV[at + 1])], tonumber(ARGV[at + 3])
  local key = p .. 'job:' .. id
  if added[id] or not unknown and call('EXISTS', key) == 1 then return id, true end
  local more = ARGV[at + 4] ~= '' and cjson.decode(ARGV[at + 4])
  if more and more.unique_key then
    local first = call('HGET', unique_keys(queue_of(lane), more.unique_in), more.unique_key)
    if first then return first, true end
  end
  local due, place, delayed = place_new(id, lane, delay, more)
  if more or delayed then note_state(id, lane, due, delayed, more or {}) end
  places = places + 1
  added[id] = true
  local count = #new_jobs
  new_jobs[count + 1], new_jobs[count + 2] = key, place .. '\t' .. stamp .. '\t' .. ARGV[at + 2]
  new_places[count + 1], new_places[count + 2] = places, id
  return id, false
end

local function finish_adding()
  for first = 1, #new_jobs, CHUNK do
    call('MSET', unpack(new_jobs, first, math.min(first + CHUNK - 1, #new_jobs)))
  end
  call_many('ZADD', p .. 'jobs', new_places)
  finish_lanes()
end
