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
ready = ready + call('ZCOUNT', p .. 'lined:' .. lane, '-inf', now)
-- Those in lines that wait for a limit could not; an only job is in its line's record.
for _, member in ipairs(call('ZRANGE', p .. 'waited-for', 0, -1)) do
  local limit, waits_in = match(member, '^([^\t]*)\t(.*)$')
  if waits_in == lane then
    for _, line in ipairs(call('ZRANGE', p .. 'waits:' .. lane .. ':' .. limit, 0, -1)) do
      local jobs = p .. 'line:' .. lane .. ':' .. match(line, '^[^\t]*\t(.*)$')
      ready = ready - math.max(1, call('ZCOUNT', jobs, '-inf', now))
    end
  end
end
return math.min(ready, tonumber(ARGV[3]))
