-- What plans are made from.
-- include: health

-- The names of all queues and regions with recent counts or a breaker.
local function known_regions()
  local since = format('%.17g', now - WINDOW)
  local names, seen = call('ZRANGEBYSCORE', p .. 'counted', since, '+inf'), {}
  for _, name in ipairs(names) do seen[name] = true end
  for _, name in ipairs(call('HKEYS', p .. 'breakers')) do
    if not seen[name] then names[#names + 1] = name end
  end
  return names
end

-- Packed: now, epoch, {queue, settings}, regions, what live workers serve (region and queues),
-- paused queues, and health as health.lua gives it.
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
    call('SMEMBERS', p .. 'paused'), healths(known_regions()) })
end
