-- Accepting new jobs. A job takes five values: id, number of its lane, text without sequence and
-- time, delay, and the rest as JSON or ''. A lane takes one: its name.
-- include: lanes

local new_lanes, new_jobs, new_places, added = {}, {}, {}, {}
local JOB_WIDTH = 5

-- Read `count` lanes from ARGV[first] on; gives where the next value stands.
local function read_lanes(first, count)
  for at = 1, count do new_lanes[at] = ARGV[first + at - 1] end
  return first + count
end

-- Note what is out of the ordinary about a new job in its state.
local function note_state(id, lane, due, delayed, more)
  local key, marks = p .. 'state:' .. id, ''
  if delayed then
    marks = 'd'
    call('HSET', key, 'due', number_text(due))
  end
  if more.unique_key then
    marks = marks .. 'u'
    call('HSET', p .. 'unique:' .. queue_of(lane), more.unique_key, id)
    call('HSET', key, 'unique_key', more.unique_key)
  end
  if more.concurrency_key then
    marks = marks .. 'k'
    call('HSET', key, 'concurrency_key', more.concurrency_key)
  end
  if more.concurrency_limit then call('HSET', key, 'concurrency_limit', more.concurrency_limit) end
  if more.expires then
    marks = marks .. 'e'
    local expires_at = now + more.expires
    call('HSET', key, 'expires_at', number_text(expires_at))
    call('ZADD', p .. 'expires', expires_at, id)
  end
  call('HSET', key, 'marks', marks)
end

-- Accept the job that begins at ARGV[at]; gives its id, or that of the job before it and true.
-- `unknown` says that no job of that id was stored when the script began.
local function add(at, unknown)
  local id, lane, delay = ARGV[at], new_lanes[tonumber(ARGV[at + 1])], tonumber(ARGV[at + 3])
  local key = p .. 'job:' .. id
  if added[id] or not unknown and call('EXISTS', key) == 1 then return id, true end
  local more = ARGV[at + 4] ~= '' and cjson.decode(ARGV[at + 4])
  if more and more.unique_key then
    local first = call('HGET', p .. 'unique:' .. queue_of(lane), more.unique_key)
    if first then return first, true end
  end
  local due, place, delayed = join(id, lane, delay, not more)
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
