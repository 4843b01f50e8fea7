-- Accept new jobs, all of them or none.
-- KEYS[1]  prefix
-- ARGV     now, 1 if no id comes twice, and the jobs in runs as shared/add.lua reads them
-- Result   for each job that was not accepted its number from 0, and the id of the job that was
--          there before it
-- include: base

local values = ARGV

-- One job without delay or options, for whose lane nobody waits: what the rest of this would do,
-- without making any of its functions.
if #values == 8 and values[4] == '0' and values[5] == '' then
  local lane, id = values[3], values[7]
  if
    not find(lane, '^retry:') and not find(lane, '^urgent%-retry:')
    and call('EXISTS', p .. 'waiting:' .. lane) == 0
    and call('HEXISTS', p .. 'jobs', id) == 0
  then
    -- the sequence of the job; as in shared/join.lua
    local text = format('%016.0f', 1 + 4096 * call('INCRBY', p .. 'sequence', 1))
    call('HSET', p .. 'jobs', id, text .. '\t' .. stamp .. '\t' .. lane .. '\t' .. values[8])
    call('ZADD', p .. 'order', text, id)
    call('SADD', p .. 'lanes', lane)
    call('RPUSH', p .. lane, text .. ':' .. id)
    return {}
  end
end
-- include: many, times, add

-- All ids are asked for at once.
local ids, count, at = {}, 0, 3
while at <= #values do
  local first, width = at + RUN_WIDTH, width_of(values[at + 2])
  at = first + width * values[at + 3]
  for each = first, at - 1, width do
    count = count + 1
    ids[count] = values[each]
  end
end

-- Write at once that so many sequences will be given: the first write of what adds work, which a
-- full memory refuses before anything is changed.
local given = call('INCRBY', p .. 'sequence', count)
newest_sequence = 1 + TOKENS_PER_LIFE * (given - count)
written_sequence = 1 + TOKENS_PER_LIFE * given

local texts, all_new = read_many(p .. 'jobs', ids, 1, count), values[2] == '1'
for number = 1, count do
  if texts[number] then
    stored[ids[number]], all_new = true, false
  end
end

local known = {}
add_runs(3, #values, function(number, id)
  known[#known + 1] = number
  known[#known + 1] = id
end, all_new)
finish_add()
return known
