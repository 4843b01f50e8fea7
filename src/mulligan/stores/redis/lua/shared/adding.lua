-- Accepting new jobs. They come in runs: jobs one after another that join the same lane in the same
-- way. A run takes four values and two for each job: lane, delay, what is out of the ordinary as
-- JSON or '', how many jobs; and of each its id, and its task and body with a tab between.
-- include: unique, gathering

local RUN_WIDTH, JOB_WIDTH = 4, 2
local new_jobs, new_places, new_count = {}, {}, 0
-- By id, whether a job is stored, as far as that was asked.
local stored = {}

local function is_stored(id)
  if stored[id] == nil then stored[id] = call('HEXISTS', p .. 'jobs', id) == 1 end
  return stored[id]
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
  note('gather_index', more.gather_index)
  if more.awaits then
    note('awaits', more.awaits)
    note('lane', lane)
    note('stands_at', 0)
  end
  note('marks', marks)
  call('HSET', p .. 'state:' .. id, unpack(fields))
  if more.unique_key then
    call('HSET', unique_keys(queue_of(lane), more.unique_in), more.unique_key, id)
  end
  if expires_at then call('ZADD', p .. 'expires', expires_at, id) end
end

-- Where a new job stands: its due time, its place, and whether it was put off.
local function place_new(id, lane, delay, more)
  if not more.awaits then return join(id, lane, delay) end
  count_gathering(queue_of(lane), 1)
  return now, next_place(), false
end

local function keep_job(id, place, text)
  local at = 2 * new_count
  new_count, stored[id] = new_count + 1, true
  new_jobs[at + 1], new_jobs[at + 2] = id, text
  new_places[at + 1], new_places[at + 2] = place, id
end

-- Accept a job; gives the id of the job that was there before it, if one was.
local function add(id, lane, delay, more, text)
  if is_stored(id) then return id end
  local known = more.unique_key
    and call('HGET', unique_keys(queue_of(lane), more.unique_in), more.unique_key)
  if known then return known end
  local due, place, delayed = place_new(id, lane, delay, more)
  if delayed or next(more) then note_state(id, lane, due, delayed, more) end
  place = place_text(place)
  keep_job(id, place, place .. text)
end

-- Accept jobs from ARGV[first] to ARGV[last] that are known to be new and join the end of a line in
-- the ordinary way: the same as `add`, without a question or a call for each.
local function add_ordinary(first, last, lane, heading)
  local values, line = ARGV, line_of(lane)
  local length, place, at = #line, last_place(), 2 * new_count
  for each = first, last, JOB_WIDTH do
    place, length = place + TOKENS_PER_LIFE, length + 1
    local id, text = values[each], format('%016.0f', place)
    line[length] = text .. ':' .. id
    new_places[at + 1], new_places[at + 2] = text, id
    new_jobs[at + 1], new_jobs[at + 2] = id, text .. heading .. values[each + 1]
    at = at + 2
  end
  ring_for_each(lane, now, at / 2 - new_count)
  newest_place, new_count = place, at / 2
end

-- Accept the runs from ARGV[at] to ARGV[last]. `before` is called for each job that is not
-- accepted, with its number from 0 and the id of the job that was there before it. `all_new` says
-- that no id is stored, and none comes twice.
local function add_runs(at, last, before, all_new)
  local number = 0
  while at <= last do
    local lane, delay, more = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
    local heading = '\t' .. stamp .. '\t' .. lane .. '\t'
    local first = at + RUN_WIDTH
    at = first + JOB_WIDTH * ARGV[at + 3]
    if all_new and delay == 0 and more == '' and has_line(lane) then
      add_ordinary(first, at - 1, lane, heading)
    else
      more = more == '' and {} or cjson.decode(more)
      for each = first, at - 1, JOB_WIDTH do
        local known = add(ARGV[each], lane, delay, more, heading .. ARGV[each + 1])
        if known then before(number + (each - first) / JOB_WIDTH, known) end
      end
    end
    number = number + (at - first) / JOB_WIDTH
  end
end

local function finish_adding()
  call_many('HSET', p .. 'jobs', new_jobs)
  call_many('ZADD', p .. 'order', new_places)
  finish_lanes()
end
