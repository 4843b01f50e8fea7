-- Count the jobs of a lane that could start now.
-- KEYS[1]  prefix
-- ARGV     now, lane, limit
-- Result   how many, at most the limit
-- include: base
-- include: lanes

local lane = ARGV[2]
local ready = call('ZCOUNT', sorted_key(lane), '-inf', now)
if has_list(lane) then
  ready = ready + call('LLEN', p .. lane) - call('ZCARD', p .. 'gone:' .. lane)
end
return math.min(ready, tonumber(ARGV[3]))
