-- Write the outcomes whose leases are still held.
-- KEYS[1]  prefix
-- ARGV     now, number of outcomes, number of lanes, the lanes of new jobs, the ids of all
--          outcomes, their tokens, and for each its word and what goes with it:
--            done                         |  done+ result, has result, count, new jobs
--            again lane, delay, failure   |  later delay  |  dead failure, count, new jobs
--            returned                     |  cancelled reason
-- Result   for each outcome a letter: w written, a already written, s stale
-- include: adding, ending, leases

go_on_when_full()
local count = tonumber(ARGV[2])
local ids_at = read_lanes(4, tonumber(ARGV[3]))
local tokens_at = ids_at + count
local data_at = tokens_at + count
local texts = read_many(p .. 'running', ARGV, ids_at, tokens_at - 1)

local written, verdicts, freed, holdings = {}, {}, {}, {}

local function add_next(at)
  for _ = 1, tonumber(ARGV[at]) do
    add(at + 1)
    at = at + JOB_WIDTH
  end
  return at + 1
end

local function remember(id, failure)
  local key = p .. 'history:' .. id
  if call('RPUSH', key, stamp .. ' ' .. failure) > 50 then call('LTRIM', key, -50, -1) end
end

local function put_back(key, id, lane, delay, counts, part)
  local due, place, delayed = join(id, lane, delay)
  call('HSET', key, 'lane', lane, 'due', number_text(due), 'sequence', place,
    'marks', with_delayed(call('HGET', key, 'marks'), delayed), 'counts', counts, 'ran', part.ran)
end

local writers = {}

function writers.done(key, id, counts, part)
  call('HSET', key, 'ended', 'done', 'ended_at', stamp, 'counts', counts, 'ran', part.ran)
  list_ended(id, 'done', queue_of(part.lane))
end

writers['done+'] = function(key, id, counts, part, at)
  if ARGV[at + 1] == '1' then
    call('HSET', key, 'ended', 'done', 'ended_at', stamp, 'counts', counts, 'ran', part.ran,
      'result', ARGV[at])
    list_ended(id, 'done', queue_of(part.lane))
  else
    writers.done(key, id, counts, part)
  end
end

function writers.again(key, id, counts, part, at)
  remember(id, ARGV[at + 2])
  local token, retries, replays, snoozes = read_counts(counts)
  put_back(key, id, ARGV[at], tonumber(ARGV[at + 1]),
    counts_text(token, retries + 1, replays, snoozes), part)
end

function writers.later(key, id, counts, part, at)
  local token, retries, replays, snoozes = read_counts(counts)
  put_back(key, id, part.lane, tonumber(ARGV[at]),
    counts_text(token, retries, replays, snoozes + 1), part)
end

function writers.dead(key, id, counts, part, at)
  remember(id, ARGV[at])
  call('HSET', key, 'ended', 'failed', 'ended_at', stamp, 'counts', counts, 'ran', part.ran)
  list_ended(id, 'failed', queue_of(part.lane))
end

function writers.returned(key, id, counts, part)
  local job = call('HMGET', key, 'lane', 'due', 'sequence', 'marks')
  local _, due, place = whereabouts(id, job[1], job[2], job[3])
  local member = member_of(place, id)
  call('HSET', key, 'counts', counts, 'ran', part.ran)
  if has(job[4], 'd') then call('ZADD', p .. 'delayed:' .. queue_of(part.lane), due, member) end
  stand(member, part.lane, due)
end

function writers.cancelled(key, id, counts, part, at)
  call('HSET', key, 'ended', 'cancelled', 'ended_at', stamp, 'counts', counts, 'ran', part.ran,
    'cancel_reason', ARGV[at])
  list_ended(id, 'cancelled', queue_of(part.lane))
end

-- Whether the word ends the job, where its new jobs begin, and how many values it has besides.
local ENDS = { done = true, ['done+'] = true, dead = true, cancelled = true }
local NEXT_AT = { ['done+'] = 2, dead = 1 }
local VALUES = { done = 0, again = 3, later = 1, returned = 0, cancelled = 1 }

local function write(word, id, counts, place, flags, part, at)
  local key = p .. 'state:' .. id
  local special = flags ~= '' and find(flags, 's', 1, true)
  local job = special and call('HMGET', key, 'unique_key', 'permits', 'concurrency_key')
  writers[word](key, id, counts, part, at)
  if flags ~= '' and find(flags, 'r', 1, true) then call('HSET', key, 'last_retry_at', part.started) end
  if special and ENDS[word] then free_unique(id, queue_of(part.lane), job[1]) end
  if NEXT_AT[word] then add_next(at + NEXT_AT[word]) end
  if special then release(id, job[2], job[3]) end
  freed[#freed + 1] = id
  local holding = holdings[part.worker]
  if not holding then
    holding = {}
    holdings[part.worker] = holding
  end
  holding[#holding + 1] = place .. ':' .. id
end

local function verdict_of(id, token)
  local job = call('HMGET', p .. 'state:' .. id, 'counts', 'committed')
  return tonumber(job[2] or (read_counts(job[1] or nil))) == token and 'a' or 's'
end

for at = 1, count do
  local id, token, word = ARGV[ids_at + at - 1], tonumber(ARGV[tokens_at + at - 1]), ARGV[data_at]
  local text = texts[at]
  local held, counts, place, flags, part
  if text and not written[id] then held, counts, place, flags, part = read_lease(text) end
  if held == token then
    write(word, id, counts, place, flags, part, data_at + 1)
    written[id] = true
    verdicts[at] = 'w'
  else
    verdicts[at] = verdict_of(id, token)
  end
  local values = VALUES[word]
  if not values then
    local counted_at = NEXT_AT[word]
    values = counted_at + 1 + JOB_WIDTH * tonumber(ARGV[data_at + 1 + counted_at])
  end
  data_at = data_at + 1 + values
end

call_many('HDEL', p .. 'running', freed)
for worker, holding in pairs(holdings) do
  call_many('ZREM', p .. 'running:' .. worker, holding)
end
finish_adding()
finish_ending()
return table.concat(verdicts)
