-- Telling those who wait for jobs to end. A process that waits for any subscribes to `ended`, and for
-- each job to a channel of its own: nothing is stored, and while nobody waits one look is all it
-- costs. Where this user may not publish, those who wait look by themselves.
-- include: base

local function tell_ended(ids, count)
  if count == 0 then return end
  local anybody = redis.pcall('PUBSUB', 'NUMSUB', p .. 'ended')
  if anybody.err or anybody[2] == 0 then return end
  for first = 1, count, CHUNK do
    local channels = {}
    for at = first, math.min(first + CHUNK - 1, count) do
      channels[at - first + 1] = p .. 'ended:' .. ids[at]
    end
    local waiting = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
    for at = 1, #waiting, 2 do
      if waiting[at + 1] > 0 then redis.pcall('PUBLISH', waiting[at], '') end
    end
  end
end
