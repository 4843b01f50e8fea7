-- Make failed jobs pending again.
-- KEYS[1]  prefix
-- ARGV     now, 1 if what they have recorded is dropped but for the log, ids
-- Result   for each 1, or 0 if it is not failed or another job has its unique key now
-- include: base, memory, many, times
-- include: ended, unique, join, job_text, job_counts, marks, arrive

stop_when_full()
local function replay(id)
  local key = p .. 'state:' .. id
  local job = call('HMGET', key, 'ended', 'unique_key', 'unique_in', 'marks', 'counts',
    'debounce_until', 'gather', 'gather_index', 'fairness_key', 'limits')
  if job[1] ~= 'failed' then return 0 end
  local _, _, lane = read_header(id)
  if not lane then return 0 end
  local queue = queue_of(lane)
  local unique = job[2] and not job[6] and unique_keys(queue, job[3])
  if unique then
    local holder = key_holder(unique, job[2])
    if holder and holder ~= id then return 0 end
    call('HSET', unique, job[2], id)
  end
  if job[7] then withdraw(id, job[7], job[8]) end
  local used, _, replays = read_counts(job[5])
  local due, sequence, delayed = join(id, lane, 0, job[9], job[10])
  call('HSET', key, 'lane', lane, 'due', number_text(due), 'sequence', sequence,
    'counts', counts_text(used, 0, replays + 1, 0), 'marks', with_delayed(job[4], delayed))
  call('HDEL', key, 'ended', 'ended_at', 'trail')
  call('ZREM', p .. 'failed:' .. queue, id)
  count_ended('failed', queue, -1)
  if ARGV[2] == '1' then call('DEL', p .. 'records:' .. id) end
  return 1
end

local result = {}
for at = 3, #ARGV do result[at - 2] = replay(ARGV[at]) end
finish_join()
finish_end()
return result
