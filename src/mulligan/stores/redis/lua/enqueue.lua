-- Accept new jobs, all of them or none.
-- KEYS[1]  prefix
-- ARGV     now, number of lanes, then the lanes and the jobs as shared/adding.lua reads them
-- Result   for each job its id and 1, or the id of the job that was there before it and 0
-- include: adding

stop_when_full()
local first, keys = read_lanes(3, tonumber(ARGV[2])), {}
for at = first, #ARGV, JOB_WIDTH do keys[#keys + 1] = p .. 'job:' .. ARGV[at] end
local known = 0
for from = 1, #keys, CHUNK do
  known = known + call('EXISTS', unpack(keys, from, math.min(from + CHUNK - 1, #keys)))
end

local result = {}
for at = first, #ARGV, JOB_WIDTH do
  local id, before = add(at, known == 0)
  result[#result + 1] = id
  result[#result + 1] = before and 0 or 1
end
finish_adding()
return result
