-- What plans are made from, packed: epoch, {queue, settings}, {region, live}, paused queues.
-- include: base

local function facts()
  local settings, regions = {}, {}
  local stored = call('HGETALL', p .. 'queues')
  for at = 1, #stored, 2 do settings[#settings + 1] = { stored[at], stored[at + 1] } end
  for _, region in ipairs(call('SMEMBERS', p .. 'regions')) do
    local last = call('ZREVRANGE', p .. 'region:' .. region, 0, 0, 'WITHSCORES')
    regions[#regions + 1] = { region, last[2] ~= nil and tonumber(last[2]) > now }
  end
  local epoch = tonumber(call('HGET', p .. 'counters', 'epoch') or 0)
  return cmsgpack.pack({ epoch, settings, regions, call('SMEMBERS', p .. 'paused') })
end
