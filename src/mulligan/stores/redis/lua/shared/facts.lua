-- What plans are made from, packed: now, epoch, {queue, settings}, regions, what live workers serve
-- (region and queues), paused queues, and health as shared/counting.lua gives it.
-- include: counting

local function facts()
  local settings, serving = {}, {}
  local stored = call('HGETALL', p .. 'queues')
  for at = 1, #stored, 2 do settings[#settings + 1] = { stored[at], stored[at + 1] } end
  for _, serves in ipairs(call('SMEMBERS', p .. 'serving')) do
    local last = call('ZREVRANGE', p .. 'serving:' .. serves, 0, 0, 'WITHSCORES')
    if tonumber(last[2]) > now then serving[#serving + 1] = serves end
  end
  local epoch = tonumber(call('GET', p .. 'epoch') or 0)
  return cmsgpack.pack({ now, epoch, settings, call('SMEMBERS', p .. 'regions'), serving,
    call('SMEMBERS', p .. 'paused'), healths(known_places()) })
end
