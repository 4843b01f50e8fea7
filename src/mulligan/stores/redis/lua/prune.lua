-- Delete done and cancelled jobs that ended long ago, workers that died long ago, and notes and
-- counts that are past their time.
-- KEYS[1]  prefix
-- ARGV     now, seconds to keep jobs, limit, seconds to keep dead workers
-- Result   how many jobs
-- include: base, many, memory, times
-- include: erase, leases, dismiss, sleepers, slots, named_limits

go_on_when_full()
local before, limit = now - tonumber(ARGV[2]), tonumber(ARGV[3])
local erased, count = {}, 0

-- Erase the job, if it is still the one that ended then: it may have been purged since, and another
-- enqueued under its id, which may even have ended in the same moment and say how long it is kept.
local function erase_old(id, ended_at, text)
  local lease = text and read_common(text)
  local ended = lease and lease.ended_at or call('HGET', p .. 'state:' .. id, 'ended_at')
  if ended ~= ended_at then return end
  if (not lease or lease.has_state) and call('ZSCORE', p .. 'kept', id) then return end
  local status, queue = ending_of(id, lease)
  if not lease or lease.has_state then erase_state(id, status, queue) end
  count_ended(status, queue, -1)
  count = count + 1
  erased[count] = id
end

-- Erase what ended together, as far as the limit allows; what is left of it is first in the list.
local function erase_entry(ended_at, joined)
  local ids, number = {}, 0
  for id in string.gmatch(joined, '[^\t]+') do
    number = number + 1
    ids[number] = id
  end
  local last = math.min(number, limit - count)
  for at, text in ipairs(read_many(p .. 'done', ids, 1, last)) do
    erase_old(ids[at], ended_at, text)
  end
  if last < number then
    call('LPUSH', p .. 'past', ended_at .. '\t' .. table.concat(ids, '\t', last + 1))
  end
end

-- Look at the first entries: not at the very first alone, as a younger one comes before older ones
-- where the clock was set back. What has yet to end by this clock goes to the end of the list, so
-- that it does not hide what is behind it. Whether it is worth looking again.
local LOOK_AT, LATER_AT_MOST = 100, 1000
local later = 0
local function look()
  local went, later_before = false, later
  for _, entry in ipairs(call('LRANGE', p .. 'past', 0, LOOK_AT - 1)) do
    local ended_at, joined = match(entry, '^([^\t]*)\t(.*)$')
    local ended = tonumber(ended_at)
    if ended and ended < before and count < limit then
      call('LREM', p .. 'past', 1, entry)
      erase_entry(ended_at, joined)
      went = true
    elseif ended and ended > now then
      call('LREM', p .. 'past', 1, entry)
      call('RPUSH', p .. 'past', entry)
      later = later + 1
    end
  end
  return count < limit and (went or later > later_before) and later < LATER_AT_MOST
end

-- Erase those that said how long they are kept; one that was enqueued anew is no longer listed.
local function erase_kept()
  local over = call('ZRANGEBYSCORE', p .. 'kept', '-inf', '(' .. number_text(now), 'LIMIT', 0, limit)
  local texts = read_many(p .. 'done', over, 1, #over)
  for at, id in ipairs(over) do
    local lease = texts[at] and read_common(texts[at])
    local status, queue = ending_of(id, lease)
    if status then
      if not lease or lease.has_state then erase_state(id, status, queue) end
      count_ended(status, queue, -1)
      count = count + 1
      erased[count] = id
    end
  end
  call_many('ZREM', p .. 'kept', over)
end

erase_kept()
repeat until not look()
erase(erased)

local dead = now - tonumber(ARGV[4])
for _, worker in ipairs(call('ZRANGEBYSCORE', p .. 'workers', '-inf', dead, 'LIMIT', 0, 100)) do
  dismiss(worker)
  forget_sleeper(worker)
end

local notes = call('ZRANGEBYSCORE', p .. 'notes-until', '-inf', now)
call_many('HDEL', p .. 'note-values', notes)
call_many('ZREM', p .. 'notes', notes)
call_many('ZREM', p .. 'notes-until', notes)
call('ZREMRANGEBYSCORE', p .. 'counted', '-inf', '(' .. format('%.17g', now - WINDOW))

-- What was used of limits is forgotten when it says nothing any more, some names at a time.
local pruned_to = p .. 'limits-pruned'
local found = call('HSCAN', p .. 'limit-states', call('GET', pruned_to) or 0, 'COUNT', CHUNK)
local names = {}
for at = 1, #found[2], 2 do names[#names + 1] = found[2][at] end
if names[1] then named_limits().prune(names) end
if found[1] == '0' then call('DEL', pruned_to) else call('SET', pruned_to, found[1]) end
finish_end()
return count
