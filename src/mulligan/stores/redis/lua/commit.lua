-- Write the outcomes whose leases are still held.
-- KEYS[1]  prefix
-- ARGV     now, a letter for each outcome, number of lanes, the lanes of new jobs, the ids of all
--          outcomes, their tokens, and for each what goes with its letter:
--            d done   |  f done and followed: result, has result, count, new jobs
--            a again: lane, delay, failure, trail   |  l later: delay   |  r returned
--            x dead: failure, count, new jobs   |  c cancelled: reason
-- Result   for each outcome a letter: w written, a already written, s stale
-- include: adding, cancelling

go_on_when_full()
local letters = ARGV[2]
local count = #letters
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

-- Let the job join a lane again; `...` are fields of its state that change besides.
local function put_back(key, id, lane, delay, counts, lease, ...)
  local due, place, delayed = join(id, lane, delay)
  call('HSET', key, 'lane', lane, 'due', number_text(due), 'sequence', place,
    'marks', with_delayed(call('HGET', key, 'marks'), delayed), 'counts', counts,
    'ran', lease.ran, ...)
end

local writers = {}

function writers.d(key, id, lease)
  call('HSET', key, 'ended', 'done', 'ended_at', stamp, 'counts', lease.counts, 'ran', lease.ran)
  list_ended(id, 'done', queue_of(lease.lane))
end

function writers.f(key, id, lease, at)
  if ARGV[at + 1] == '1' then
    call('HSET', key, 'ended', 'done', 'ended_at', stamp, 'counts', lease.counts, 'ran', lease.ran,
      'result', ARGV[at])
    list_ended(id, 'done', queue_of(lease.lane))
  else
    writers.d(key, id, lease)
  end
end

function writers.a(key, id, lease, at)
  remember(id, ARGV[at + 2])
  local token, retries, replays, snoozes = read_counts(lease.counts)
  put_back(key, id, ARGV[at], tonumber(ARGV[at + 1]),
    counts_text(token, retries + 1, replays, snoozes), lease, 'trail', ARGV[at + 3])
end

function writers.l(key, id, lease, at)
  local token, retries, replays, snoozes = read_counts(lease.counts)
  put_back(key, id, lease.lane, tonumber(ARGV[at]),
    counts_text(token, retries, replays, snoozes + 1), lease)
end

function writers.x(key, id, lease, at)
  remember(id, ARGV[at])
  call('HSET', key, 'ended', 'failed', 'ended_at', stamp, 'counts', lease.counts, 'ran', lease.ran)
  list_ended(id, 'failed', queue_of(lease.lane))
end

function writers.r(key, id, lease)
  local job = call('HMGET', key, 'lane', 'due', 'sequence', 'marks')
  local _, due, place = whereabouts(id, job[1], job[2], job[3])
  local member = member_of(place, id)
  call('HSET', key, 'counts', lease.counts, 'ran', lease.ran)
  if has(job[4], 'd') then call('ZADD', p .. 'delayed:' .. queue_of(lease.lane), due, member) end
  stand(member, lease.lane, due)
end

function writers.c(key, id, lease, at)
  call('HSET', key, 'ended', 'cancelled', 'ended_at', stamp, 'cancel_reason', ARGV[at],
    'counts', lease.counts, 'ran', lease.ran)
  list_ended(id, 'cancelled', queue_of(lease.lane))
end

-- Whether the outcome ends the job, where its new jobs begin, and how many values it has besides.
local ENDS = { d = true, f = true, x = true, c = true }
local NEXT_AT = { f = 2, x = 1 }
local VALUES = { d = 0, a = 4, l = 1, r = 0, c = 1 }

-- What the end of a job means for its unique key, and for the job that awaits it.
local function part(letter, id, lease, at, job)
  free_unique(id, queue_of(lease.lane), job[1], job[4])
  local gather = job[5]
  if gather and letter == 'c' then
    miss(gather, id, 'cancelled')
  elseif gather and letter ~= 'x' then
    arrive(gather, job[6] or 0, letter == 'f' and ARGV[at + 1] == '1' and ARGV[at])
  end
end

local function write(letter, id, lease, at)
  local key = p .. 'state:' .. id
  local job = lease.is_special and call('HMGET', key, 'unique_key', 'permits', 'concurrency_key',
    'unique_in', 'gather', 'place')
  writers[letter](key, id, lease, at)
  if lease.is_retry then call('HSET', key, 'last_retry_at', lease.started) end
  if job and ENDS[letter] then part(letter, id, lease, at, job) end
  if NEXT_AT[letter] then add_next(at + NEXT_AT[letter]) end
  if job then release(id, job[2], job[3]) end
  freed[#freed + 1] = id
  local holding = holdings[lease.worker]
  if not holding then
    holding = {}
    holdings[lease.worker] = holding
  end
  holding[#holding + 1] = id
end

local function verdict_of(id, token)
  local job = call('HMGET', p .. 'state:' .. id, 'counts', 'committed')
  local committed = job[2] or match(job[1] or '0', '^%d+')
  return committed == token and 'a' or 's'
end

for at = 1, count do
  local id, token, letter = ARGV[ids_at + at - 1], ARGV[tokens_at + at - 1], sub(letters, at, at)
  local text = texts[at]
  local lease = text and not written[id] and read_lease(text)
  if lease and lease.token_text == token then
    write(letter, id, lease, data_at)
    written[id] = true
    verdicts[at] = 'w'
  else
    verdicts[at] = verdict_of(id, token)
  end
  local values = VALUES[letter]
  if not values then
    local counted_at = NEXT_AT[letter]
    values = counted_at + 1 + JOB_WIDTH * tonumber(ARGV[data_at + counted_at])
  end
  data_at = data_at + values
end

call_many('HDEL', p .. 'running', freed)
for worker, holding in pairs(holdings) do
  call_many('SREM', p .. 'running:' .. worker, holding)
end
finish_adding()
finish_ending()
return table.concat(verdicts)
