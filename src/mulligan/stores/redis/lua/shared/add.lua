-- Accepting new jobs. They come in runs: jobs one after another that join the same lane in the same
-- way. A run takes four values and two for each job: lane, delay, options as JSON or '', how many
-- jobs; and of each its id, and its task and body with a tab between. Where the options are `*`, three
-- for each job: it has a fairness key, which comes last, and no other option.
-- include: new_jobs, unique, gather, debounce

local RUN_WIDTH, JOB_WIDTH, KEYED, KEYED_WIDTH = 4, 2, '*', 3
local NOTHING = {}
local MARKS = { unique_key = 'u', gather = 'g', keep = 't' }
-- Durations that are kept as the times that they make.
local TIMES = { debounce_max = 'debounce_until', unique_for = 'unique_until' }

-- Write the options of a new job into its state, each under its own name.
local function write_options(id, lane, due, delayed, options)
  local fields, marks, at = {}, '', 0
  for name, value in pairs(options) do
    if name == 'debounces' then
      value = nil  -- it is for `add` alone
    elseif name == 'expires' then
      name, value, marks = 'expires_at', number_text(now + value), marks .. 'e'
    elseif value == true then
      value = 1
    elseif TIMES[name] then
      name, value = TIMES[name], number_text(rounded(now + value))
    end
    if value then
      fields[at + 1], fields[at + 2] = name, value
      at, marks = at + 2, marks .. (MARKS[name] or '')
    end
  end
  if options.awaits then
    fields[at + 1], fields[at + 2], fields[at + 3], fields[at + 4] = 'lane', lane, 'sequence', 0
    at = at + 4
  end
  if delayed then
    fields[at + 1], fields[at + 2] = 'due', number_text(due)
    marks = marks .. 'd'
  end
  marks = with_line(marks, options.fairness_key, options.limits)
  call('HSET', p .. 'state:' .. id, 'marks', marks, unpack(fields))
  if options.unique_key then
    call('HSET', unique_keys(queue_of(lane), options.unique_in), options.unique_key, id)
  end
  if options.expires then call('ZADD', p .. 'expires', now + options.expires, id) end
end

-- Let a new job join its lane, if it awaits no other: its due time, its sequence, and whether it
-- was put off.
local function join_new(id, lane, delay, options, is_lined)
  if not options.awaits then
    return join(id, lane, delay, options.fairness_key, options.limits, is_lined)
  end
  count_gathering(queue_of(lane), 1)
  return now, next_sequence(), false
end

-- Accept a job; gives the id of the job that was there before it, if one was.
local function add(id, lane, delay, options, is_lined, heading, said)
  if is_stored(id) then return id end
  local known = options.unique_key
    and key_holder(unique_keys(queue_of(lane), options.unique_in), options.unique_key)
  if known then
    if options.debounce_max and (options.debounces or known) == known then
      debounce(known, delay, said)
    end
    return known
  end
  local due, sequence, delayed = join_new(id, lane, delay, options, is_lined)
  if delayed or next(options) then write_options(id, lane, due, delayed, options) end
  sequence = sequence_text(sequence)
  keep_job(id, sequence, sequence .. heading .. said)
end

-- Accept jobs from ARGV[first] to ARGV[last] that are known to be new, have no options and join the
-- end of a list: the same as `add`, without a question or a call for each.
local function add_plain(first, last, lane, heading)
  local values, members = ARGV, newcomers_of(lane)
  local length, sequence, at = #members, last_sequence(), 2 * new_count
  for each = first, last, JOB_WIDTH do
    sequence, length = sequence + TOKENS_PER_LIFE, length + 1
    local id, text = values[each], format('%016.0f', sequence)
    members[length] = text .. ':' .. id
    new_sequences[at + 1], new_sequences[at + 2] = text, id
    new_jobs[at + 1], new_jobs[at + 2] = id, text .. heading .. values[each + 1]
    at = at + 2
  end
  -- Wake one sleeper for each of them, as long as there are any to wake.
  for _ = new_count + 1, at / 2 do
    if not wake_for(lane, now) then break end
  end
  newest_sequence, new_count = sequence, at / 2
end

-- The same for jobs that have nothing but a fairness key and limits: they join the end of a line.
local function add_lined(first, last, lane, heading, options)
  local key, limits, at = options.fairness_key, options.limits, 2 * new_count
  for each = first, last, JOB_WIDTH do
    local id, sequence = ARGV[each], next_sequence()
    local text = sequence_text(sequence)
    lines().stand(id, lane, now, sequence, key or '', limits or '', true)
    if not limits then
      call('HSET', p .. 'state:' .. id, 'marks', 'l', 'fairness_key', key)
    elseif not key then
      call('HSET', p .. 'state:' .. id, 'marks', 'l', 'limits', limits)
    else
      call('HSET', p .. 'state:' .. id, 'marks', 'l', 'limits', limits, 'fairness_key', key)
    end
    new_sequences[at + 1], new_sequences[at + 2] = text, id
    new_jobs[at + 1], new_jobs[at + 2] = id, text .. heading .. ARGV[each + 1]
    at = at + 2
  end
  new_count = at / 2
end

-- The same for jobs that have a fairness key each, and nothing else.
local function add_keyed(first, last, lane, heading)
  local ids, sequences, keys, at = {}, {}, {}, 2 * new_count
  for each = first, last, KEYED_WIDTH do
    local id, key, sequence, number = ARGV[each], ARGV[each + 2], next_sequence(), #ids + 1
    local text = sequence_text(sequence)
    ids[number], sequences[number], keys[number] = id, sequence, key
    call('HSET', p .. 'state:' .. id, 'marks', 'l', 'fairness_key', key)
    new_sequences[at + 1], new_sequences[at + 2] = text, id
    new_jobs[at + 1], new_jobs[at + 2] = id, text .. heading .. ARGV[each + 1]
    at = at + 2
  end
  new_count = at / 2
  lines().stand_keyed(lane, ids, sequences, keys)
end

-- Whether a job with these options has nothing in its state but what says where it stands.
local function only_lined(options)
  for name in pairs(options) do
    if name ~= 'limits' and name ~= 'fairness_key' then return false end
  end
  return true
end

-- How many values each job of a run with these options takes.
local function width_of(options)
  return options == KEYED and KEYED_WIDTH or JOB_WIDTH
end

-- Accept the runs from ARGV[at] to ARGV[last]. `before` is called for each job that is not
-- accepted, with its number from 0 and the id of the job that was there before it. `all_new` says
-- that no id is stored, and none comes twice.
local function add_runs(at, last, before, all_new)
  local number = 0
  while at <= last do
    local lane, delay, options = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
    local heading = '\t' .. stamp .. '\t' .. lane .. '\t'
    local first, width, is_keyed = at + RUN_WIDTH, width_of(options), options == KEYED
    at = first + width * ARGV[at + 3]
    local said = (options == '' or is_keyed) and NOTHING or cjson.decode(options)
    local is_lined = is_keyed or said ~= NOTHING and only_lined(said)
    if all_new and delay == 0 and options == '' and has_list(lane) then
      add_plain(first, at - 1, lane, heading)
    elseif all_new and delay == 0 and is_keyed then
      add_keyed(first, at - 1, lane, heading)
    elseif all_new and delay == 0 and is_lined then
      add_lined(first, at - 1, lane, heading, said)
    else
      for each = first, at - 1, width do
        if is_keyed then said = { fairness_key = ARGV[each + 2] } end
        local known = add(ARGV[each], lane, delay, said, is_lined, heading, ARGV[each + 1])
        if known then before(number + (each - first) / width, known) end
      end
    end
    number = number + (at - first) / width
  end
end
