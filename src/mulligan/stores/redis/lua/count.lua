-- Add to what is counted by queue and region.
-- KEYS[1]  prefix
-- ARGV     now, and for each count: queue and region, what is counted, value
-- Result   packed: the health of each queue and region, as shared/health.lua gives it
-- include: base, memory
-- include: health

go_on_when_full()
local start = recent_slots()[1]
local slot = slot_key(start)
local names, seen = {}, {}
for at = 2, #ARGV, 3 do
  local name = ARGV[at]
  local sum, value = name .. ':' .. ARGV[at + 1], ARGV[at + 2]
  call('HINCRBYFLOAT', p .. 'counts', sum, value)
  call('HINCRBYFLOAT', slot, sum, value)
  if not seen[name] then
    seen[name] = true
    names[#names + 1] = name
    call('ZADD', p .. 'counted', start, name)
  end
end
call('EXPIRE', slot, SLOT_KEPT_SECONDS)
return cmsgpack.pack(healths(names))
