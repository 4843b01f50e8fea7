-- Accept new jobs, all of them or none.
-- KEYS[1]  prefix
-- ARGV     now, 1 if no id comes twice, and the jobs in runs as shared/add.lua reads them
-- Result   for each job that was not accepted its number from 0, and the id of the job that was
--          there before it
-- include: base, many, times
-- include: add

-- All ids are asked for at once.
local values, ids, count, at = ARGV, {}, 0, 3
while at <= #values do
  local first = at + RUN_WIDTH
  at = first + JOB_WIDTH * values[at + 3]
  for each = first, at - 1, JOB_WIDTH do
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
