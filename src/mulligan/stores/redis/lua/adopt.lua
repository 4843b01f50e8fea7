-- Take over jobs of another store as they stand.
-- KEYS[1]  prefix
-- ARGV     now, and for each job: id, lane, due, 1 if it has failed, unique key or '', marks,
--          expires_at or '', 1 if it has never run, text without sequence, number of attempts in
--          its history, number of values in its state, the history, the fields of its state with
--          their values
-- Result   for each 1, or 0 if its id or unique key is already stored
-- include: adding, ending

stop_when_full()

local function slice(first, count)
  local values = {}
  for at = first, first + count - 1 do values[#values + 1] = ARGV[at] end
  return values
end

local function adopt(at, history, state)
  local id, lane, due, failed = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3] == '1'
  local unique, marks, expires_at = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  local key, queue = p .. 'state:' .. id, queue_of(lane)
  if call('EXISTS', p .. 'job:' .. id) == 1 then return 0 end
  if unique ~= '' and not failed
    and call('HSETNX', p .. 'unique:' .. queue, unique, id) == 0 then return 0 end
  read_counters()
  places = places + 1
  call('ZADD', p .. 'jobs', places, id)
  call_many('HSET', key, state)
  call_many('RPUSH', p .. 'history:' .. id, history)
  local delayed = false
  if failed then
    sequence = sequence + 1
    call('HSET', key, 'ended', 'failed')
    list_ended(id, 'failed', queue)
  else
    local _
    due, _, delayed = join(id, lane, due - now)
    if expires_at ~= '' and ARGV[at + 7] == '1' then
      call('ZADD', p .. 'expires', expires_at, id)
    end
  end
  call('SET', p .. 'job:' .. id, sequence .. '\t' .. ARGV[at + 8])
  call('HSET', key, 'lane', lane, 'due', number_text(due), 'marks', with_delayed(marks, delayed))
  return 1
end

local result, at = {}, 2
while at <= #ARGV do
  local past, fields = tonumber(ARGV[at + 9]), tonumber(ARGV[at + 10])
  local history, state = slice(at + 11, past), slice(at + 11 + past, fields)
  result[#result + 1] = adopt(at, history, state)
  at = at + 11 + past + fields
end
finish_lanes()
finish_ending()
return result
