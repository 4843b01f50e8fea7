-- Take over jobs of another store as they are.
-- KEYS[1]  prefix
-- ARGV     now, and for each job: id, lane, due, 1 if it has failed, text without its sequence,
--          number of attempts in its history, number of values in its state, number of values that
--          say what has arrived, number of values of its records, the history, the fields of its
--          state with their values, the indexes with what has arrived there, and key, number, token
--          (counted from that of the job), time and value of each record
-- Result   for each 1, or 0 if its id or unique key is already stored
-- include: base, many, times, memory
-- include: new_jobs, unique, gather, fail, tokens, marks, records

stop_when_full()

local function slice(first, count)
  local values = {}
  for at = first, first + count - 1 do values[#values + 1] = ARGV[at] end
  return values
end

local function adopt(id, lane, due, failed, text, history, state, arrived, records)
  local key, queue, job = p .. 'state:' .. id, queue_of(lane), {}
  for at = 1, #state, 2 do job[state[at]] = state[at + 1] end
  if is_stored(id) then return 0 end
  if job.unique_key and not failed then
    local keys = unique_keys(queue, job.unique_in)
    if not key_holder(keys, job.unique_key) then
      call('HSET', keys, job.unique_key, id)
    elseif not job.debounce_until then  -- which does not need its key
      return 0
    end
  end
  call_many('HSET', key, state)
  call_many('RPUSH', p .. 'history:' .. id, history)
  call_many('HSET', p .. 'arrived:' .. id, arrived)
  local sequence, delayed
  if failed then
    sequence = next_sequence()
    call('HSET', key, 'ended', 'failed')
    list_failed(id, queue, sequence)
  elseif job.awaits then
    sequence = next_sequence()
    count_gathering(queue, 1)
  else
    due, sequence, delayed = join(id, lane, due - now, job.fairness_key, job.limits)
  end
  if job.expires_at and not failed and never_started(job.counts) then
    call('ZADD', p .. 'expires', job.expires_at, id)
  end
  sequence = sequence_text(sequence)
  keep_job(id, sequence, sequence .. '\t' .. text)
  call('HSET', key, 'lane', lane, 'due', number_text(due),
    'marks', with_delayed(job.marks, delayed))
  local used = tonumber(job.adopted)
  for at = 1, #records, 5 do
    local token = token_of(sequence, used + records[at + 2])
    keep_record(id, records[at], records[at + 1], token, records[at + 3], records[at + 4])
  end
  if #records > 0 then list_recorded(id) end
  return 1
end

local result, at = {}, 2
while at <= #ARGV do
  local attempts, fields, arrivals, records = unpack(ARGV, at + 5, at + 8)
  local history_at = at + 9
  local state_at = history_at + attempts
  local arrived_at = state_at + fields
  result[#result + 1] = adopt(ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3] == '1',
    ARGV[at + 4], slice(history_at, attempts), slice(state_at, fields), slice(arrived_at, arrivals),
    slice(arrived_at + arrivals, records))
  at = arrived_at + arrivals + records
end
finish_add()
finish_end()
return result
