-- Add to what is counted by queue and region.
-- KEYS[1]  prefix
-- ARGV     now, and for each count: place, name, value
-- Result   packed: the health of each place, as shared/counting.lua gives it
-- include: counting

go_on_when_full()
local start = recent_slots()[1]
local slot = slot_key(start)
local places, seen = {}, {}
for at = 2, #ARGV, 3 do
  local place = ARGV[at]
  local sum, value = place .. ':' .. ARGV[at + 1], ARGV[at + 2]
  call('HINCRBYFLOAT', p .. 'counts', sum, value)
  call('HINCRBYFLOAT', slot, sum, value)
  if not seen[place] then
    seen[place] = true
    places[#places + 1] = place
    call('ZADD', p .. 'counted', start, place)
  end
end
call('EXPIRE', slot, SLOT_KEPT_SECONDS)
return cmsgpack.pack(healths(places))
