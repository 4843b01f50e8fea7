-- What jobs have recorded. `records:ID` has under step:NAME, progress and checkpoint each record as
-- token, number, time and value, with spaces between; `log:ID` has the lines likewise. `recorded`
-- has the ids of jobs with records.
-- include: base

local LOG_LIMIT = 200

-- Keep a record: the first of a step, the newest of all else.
local function keep_record(id, key, number, token, at, value)
  local text = token .. ' ' .. number .. ' ' .. at .. ' ' .. value
  if key == 'log' then
    call('RPUSH', p .. 'log:' .. id, text)
  elseif sub(key, 1, 5) == 'step:' then
    call('HSETNX', p .. 'records:' .. id, key, text)
  else
    call('HSET', p .. 'records:' .. id, key, text)
  end
end

-- The job has records now; of its lines the newest stay.
local function list_recorded(id)
  call('SADD', p .. 'recorded', id)
  call('LTRIM', p .. 'log:' .. id, -LOG_LIMIT, -1)
end
