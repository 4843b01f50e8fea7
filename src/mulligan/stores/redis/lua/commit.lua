-- Write the outcomes whose leases are still held.
-- KEYS[1]  prefix
-- ARGV     now, the worker that is likely to hold them, 1 if no job comes twice, how many outcomes,
--          kinds (letters, each followed by how many outcomes in a row are of it), what outcomes say
--          of limits (JSON: {number, spent {name, cost}, pauses {name, seconds}, retry after}) or '',
--          the ids of all outcomes, their tokens in 16 digits, and for each what goes with its
--          letter:
--            d done   |  v done: result   |  n done: next   |  w done: result, next
--            o, p as n, w, where one of the next jobs arrives in its place
--            a again: lane, delay, failure, trail   |  f again, for free: the same
--            l later: delay   |  r returned
--            k returned: limits and fairness key from now on, each or '', trail
--            x dead: failure, next   |  c cancelled: reason
--          where next is how many values new jobs take, and these jobs in runs
-- Result   for each outcome that was not written its number from 0, and 1 if it was written already
--          or 0 if it is stale
-- include: base, many, memory, times
-- include: wakeup, lanes, sequences, members, leases
-- include: add, cancel, fail, job_counts, permits

go_on_when_full()
local values, likely_holder, once = ARGV, ARGV[2], ARGV[3] == '1'
-- The index before the ids, before the tokens, and where the values of the next outcome begin.
local ids_from = 6
local tokens_from = ids_from + values[4]
local data_at = tokens_from + values[4] + 1
local texts = read_many(running_key(likely_holder), values, ids_from + 1, tokens_from)

-- By number, what outcomes say of limits.
local uses = {}
for _, use in ipairs(values[6] ~= '' and cjson.decode(values[6]) or {}) do uses[use[1]] = use end

local done, done_count, freed = {}, 0, {}
local written, refused, asked_elsewhere = {}, {}, false

-- The fairness key and the limits of a job that stands in lines.
local function line_fields(key, marks)
  if not has(marks, 'l') then return nil end
  return unpack(call('HMGET', key, 'fairness_key', 'limits'))
end

-- Let the job join a lane again; `...` are fields of its state that change besides.
local function put_back(key, id, lane, delay, counts, lease, ...)
  local marks = call('HGET', key, 'marks')
  local due, sequence, delayed = join(id, lane, delay, line_fields(key, marks))
  call('HSET', key, 'lane', lane, 'due', number_text(due), 'sequence', sequence,
    'marks', with_delayed(marks, delayed), 'counts', counts, 'ran', lease.ran, ...)
end

-- A job that is done needs no state: the lease that it ran under says all.
local function note_done(id, lease, result, keep)
  done_count = done_count + 1
  done[2 * done_count - 1] = id
  done[2 * done_count] = lease.common .. '\t' .. stamp .. '\t' .. (result and '=' .. result or '')
  list_ended(id, 'done', queue_of(lease.lane), keep)
end

local writers = {}

local function try_again(key, id, lease, at, retries_more, snoozes_more)
  add_attempt(id, values[at + 2])
  local used, retries, replays, snoozes = read_counts(lease.counts)
  local counts = counts_text(used, retries + retries_more, replays, snoozes + snoozes_more)
  put_back(key, id, values[at], tonumber(values[at + 1]), counts, lease, 'trail', values[at + 3])
end

function writers.a(key, id, lease, at) try_again(key, id, lease, at, 1, 0) end

function writers.f(key, id, lease, at) try_again(key, id, lease, at, 0, 1) end

function writers.l(key, id, lease, at)
  local used, retries, replays, snoozes = read_counts(lease.counts)
  put_back(key, id, lease.lane, tonumber(values[at]),
    counts_text(used, retries, replays, snoozes + 1), lease)
end

function writers.x(key, id, lease, at)
  add_attempt(id, values[at])
  call('HSET', key, 'ended', 'failed', 'ended_at', stamp, 'lane', lease.lane,
    'counts', lease.counts, 'ran', lease.ran)
  list_failed(id, queue_of(lease.lane), call('ZSCORE', p .. 'order', id))
end

function writers.r(key, id, lease)
  local job = call('HMGET', key, 'lane', 'due', 'sequence', 'marks', 'expires_at')
  local _, due, sequence = locate(id, job[1], job[2], job[3])
  call('HSET', key, 'counts', lease.counts, 'ran', lease.ran)
  if has(job[4], 'd') then
    call('ZADD', p .. 'delayed:' .. queue_of(lease.lane), due, member_of(sequence, id))
  end
  if has(job[4], 'e') and never_started(lease.counts) then
    call('ZADD', p .. 'expires', job[5], id)
  end
  insert(id, lease.lane, due, sequence, line_fields(key, job[4]))
end

function writers.k(key, id, lease, at)
  local limits = values[at] ~= '' and values[at]
  local fairness_key = values[at + 1] ~= '' and values[at + 1]
  local marks = with_line(call('HGET', key, 'marks'), fairness_key, limits)
  call('HDEL', key, 'limits', 'fairness_key')
  call('HSET', key, 'trail', values[at + 2], 'marks', marks)
  if limits then call('HSET', key, 'limits', limits) end
  if fairness_key then call('HSET', key, 'fairness_key', fairness_key) end
  writers.r(key, id, lease)
end

function writers.c(key, id, lease, at, keep)
  call('HSET', key, 'ended', 'cancelled', 'ended_at', stamp, 'cancel_reason', values[at],
    'counts', lease.counts, 'ran', lease.ran)
  list_ended(id, 'cancelled', queue_of(lease.lane), keep)
end

-- How many values go with a letter; the last says how many follow for new jobs, where any may.
local WIDTHS = { d = 0, v = 1, n = 1, w = 2, o = 1, p = 2, a = 4, f = 4, l = 1, r = 0, k = 3, x = 2, c = 1 }
local DONE = { d = true, v = true, n = true, w = true, o = true, p = true }
local HAS_RESULT = { v = true, w = true, p = true }
local FOLLOWED = { n = true, w = true, o = true, p = true, x = true }
local ENDED, HANDS_ON = { x = true, c = true }, { o = true, p = true }
local GIVEN_BACK = { r = true, k = true }

-- What the end of a job means for its unique key, and for the job that awaits it. `told` is its
-- failure, or why it was cancelled.
local function end_of(letter, id, lease, result, job, told)
  -- A throttled job keeps its key until its time is over, unless it is cancelled.
  if letter == 'c' or (tonumber(job[7] or nil) or 0) <= now then
    free_unique(id, queue_of(lease.lane), job[1], job[3])
  end
  local gather = job[4]
  if not gather then return end
  if letter == 'c' then
    miss(gather, id, job[5], told, match(lease.counts, '^%d+ (%d+)') + 1)
  elseif letter == 'x' then
    local failure = cjson.decode(match(told, '^[^\n]*'))
    arrive(gather, job[5], failure_text(id, failure.type, failure.message, failure.number),
      'failed')
  elseif not HANDS_ON[letter] then
    arrive(gather, job[5], result and '=' .. result or '', 'done')
  end
end

-- Charge what the attempt spent of limits besides, and pause those that it says to pause, or that are
-- to be paused when a job of theirs is told to come back later.
local function note_use(use, key)
  local limits, _, spent, pauses, retry_after = named_limits(), unpack(use)
  for _, each in ipairs(spent) do limits.spend(each[1], each[2]) end
  if retry_after ~= cjson.null then
    for _, name in ipairs(limits.costs_of(call('HGET', key, 'limits') or '').names) do
      local limit = limits.limit_of(name)
      if limit and limit.pause_on_retry_after then pauses[#pauses + 1] = { name, retry_after } end
    end
  end
  for _, each in ipairs(pauses) do limits.pause(each[1], rounded(now + each[2]), true) end
end

-- A next job that is stored is left as it is.
local function let_be() end

-- Write an outcome whose values begin at ARGV[at], and its new jobs up to ARGV[last].
local function write(letter, id, lease, at, last, use)
  local key, result = p .. 'state:' .. id, HAS_RESULT[letter] and values[at]
  local job = lease.is_special and call('HMGET', key, 'unique_key', 'permits', 'unique_in',
    'gather', 'gather_index', 'keep', 'unique_until')
  local keep = job and job[6] or nil
  if use then note_use(use, key) end
  if DONE[letter] then
    note_done(id, lease, result, keep)
  else
    writers[letter](key, id, lease, at, keep)
    if lease.is_retry then call('HSET', key, 'last_retry_at', lease.started) end
  end
  if job and (DONE[letter] or ENDED[letter]) then
    end_of(letter, id, lease, result, job, values[at])
  end
  if FOLLOWED[letter] then add_runs(at + WIDTHS[letter], last, let_be, false) end
  if job or lease.limits then
    local refund_from = GIVEN_BACK[letter] and tonumber(lease.started)
    release(id, job and job[2], lease.limits, refund_from)
  end
end

-- Whether an outcome that is not held was written before.
local function was_written(id, token)
  if written[id] then return written[id] == token end
  local text = call('HGET', p .. 'jobs', id)
  if not text then return false end
  local state = call('HMGET', p .. 'state:' .. id, 'committed', 'counts', 'adopted')
  local used = state[1] or match(state[2] or NO_COUNTS, '^%d+')
  local ended_as = call('HGET', p .. 'done', id)
  if ended_as then used = read_common(ended_as).used end
  -- What was used before another store gave the job away was not committed here.
  return used ~= state[3] and token_of(text, used) == token
end

-- The lease of a job that the likely holder does not hold, and who holds it. All such jobs are
-- asked for at once.
local function held_elsewhere(number, id)
  if not asked_elsewhere then
    local ids = {}
    for other = number, tokens_from - ids_from do
      if not texts[other] then ids[#ids + 1] = values[ids_from + other] end
    end
    find_leases(ids)
    asked_elsewhere = true
  end
  return find_lease(id)
end

-- The jobs that this holder holds no longer.
local function freed_by(holder)
  freed[holder] = freed[holder] or {}
  return freed[holder]
end

-- Write the outcome of this number, if its lease is still held.
local function settle(number, letter)
  local id, token = values[ids_from + number], values[tokens_from + number]
  local at = data_at
  data_at = at + WIDTHS[letter]
  if FOLLOWED[letter] then data_at = data_at + values[data_at - 1] end
  local text, holder = texts[number], likely_holder
  if not text then text, holder = held_elsewhere(number, id) end
  if text and sub(text, 1, 16) == token and not written[id] then
    stopped[id] = true
    write(letter, id, (read_lease(text)), at, data_at - 1, uses[number])
    table.insert(freed_by(holder), id)
    written[id] = token
  else
    refused[#refused + 1] = number - 1
    refused[#refused + 1] = was_written(id, token) and 1 or 0
  end
end

-- Write that jobs are done, from this number to that, while each is held under the same lease but
-- for the token and its end needs no look at its state: the same as `settle`, for most of all
-- outcomes. Gives the number of the first that is not.
local function finish_many(first, last, with_results)
  local lease = texts[first] and read_lease(texts[first])
  if not (once and lease) or lease.is_special then return first end
  local tail, ending = sub(texts[first], 17), lease.common .. '\t' .. stamp .. '\t'
  local number, ours, ended = first, freed_by(likely_holder), ended_count
  local freed_count = #ours
  while number <= last and texts[number] == values[tokens_from + number] .. tail
    and not uses[number] do
    local id = values[ids_from + number]
    done_count, freed_count, ended = done_count + 1, freed_count + 1, ended + 1
    done[2 * done_count - 1], done[2 * done_count] = id, ending
    if with_results then
      done[2 * done_count] = ending .. '=' .. values[data_at]
      data_at = data_at + 1
    end
    ours[freed_count], ended_ids[ended] = id, id
    if lease.limits then release_named(lease.limits) end
    number = number + 1
  end
  ended_count = ended
  count_ended('done', queue_of(lease.lane), number - first)
  return number
end

local number = 1
for letter, count in string.gmatch(values[5], '(%a)(%d+)') do
  local last = number + count - 1
  while number <= last do
    local from = number
    if letter == 'd' or letter == 'v' then number = finish_many(number, last, letter == 'v') end
    if number == from then
      settle(number, letter)
      number = number + 1
    end
  end
end

call_many('HSET', p .. 'done', done)
for holder, ids in pairs(freed) do call_many('HDEL', running_key(holder), ids) end
finish_add()
finish_end()
return refused
