-- Arriving at a gathering job: a result, or a failure as core/gather.py has it, at its index. Where
-- that job wants results alone, a failure is only noted, at -1 - index. A sign before each result
-- tells an empty one from none.
-- include: gather, join, times

local function failure_text(id, kind, reason, attempts)
  return '={"$failure":{"job":' .. cjson.encode(id) .. ',"type":' .. cjson.encode(kind)
    .. ',"reason":' .. cjson.encode(reason) .. ',"attempts":' .. format('%.0f', attempts) .. '}}'
end

-- A member has ended so: done, failed or cancelled. After the last, the job that awaited them may
-- start.
local function arrive(id, index, text, how)
  local key = p .. 'state:' .. id
  local job = call('HMGET', key, 'awaits', 'ended', 'lane', 'return_exceptions',
    'fairness_key', 'limits')
  if tonumber(job[1] or 0) == 0 or job[2] then return end
  index = tonumber(index or 0)
  if how ~= 'done' and not job[4] then index = -1 - index end
  if call('HSETNX', p .. 'arrived:' .. id, index, text) == 0 then return end
  if how ~= 'done' then call('HINCRBY', key, 'members_' .. how, 1) end
  if index >= 0 and call('HINCRBY', key, 'awaits', -1) == 0 then
    local due, sequence = join(id, job[3], 0, job[5], job[6])
    call('HSET', key, 'due', number_text(due), 'sequence', sequence)
    count_gathering(queue_of(job[3]), -1)
  end
end

-- A failed member is replayed: it is awaited again, if it still can be.
local function withdraw(id, gather, index)
  local key = p .. 'state:' .. gather
  local job = call('HMGET', key, 'awaits', 'ended', 'return_exceptions')
  if tonumber(job[1] or 0) == 0 or job[2] then return end
  index = tonumber(index or 0)
  if not job[3] then index = -1 - index end
  local text = call('HGET', p .. 'arrived:' .. gather, index)
  if not text or sub(text, 1, 13) ~= '={"$failure":' then return end
  if cjson.decode(sub(text, 2))['$failure'].job ~= id then return end
  call('HDEL', p .. 'arrived:' .. gather, index)
  call('HINCRBY', key, 'members_failed', -1)
  if index >= 0 then call('HINCRBY', key, 'awaits', 1) end
end
