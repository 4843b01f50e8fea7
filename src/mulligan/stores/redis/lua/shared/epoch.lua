-- The epoch: plans that were made from earlier facts are refused.
-- include: base, wake

local function forget_shape(shape)
  local known = cjson.decode(call('GET', p .. 'shape:' .. shape))
  for _, lane in ipairs(known.lanes) do call('HDEL', p .. 'waiting:' .. lane[1], shape) end
  for _, key in ipairs(known.limits) do call('SREM', p .. 'waiting-permit:' .. key, shape) end
  for _, share in ipairs(known.shares) do
    call('SREM', p .. 'waiting-share:' .. share[1], shape .. '\t' .. share[2])
  end
  call('DEL', p .. 'shape:' .. shape)
  call('SREM', p .. 'shapes', shape)
end

-- Facts changed: plans made before are refused, and every sleeper makes a new one. Shapes that
-- nobody has slept in since are forgotten.
local function change_facts()
  call('INCR', p .. 'epoch')
  local slept_in = {}
  for _, shape in ipairs(call('HVALS', p .. 'sleepers')) do slept_in[shape] = true end
  for _, shape in ipairs(call('SMEMBERS', p .. 'shapes')) do
    for _, worker in ipairs(call('ZRANGE', p .. 'sleeping:' .. shape, 0, -1)) do
      wake(worker)
    end
    call('DEL', p .. 'sleeping:' .. shape)
    if not slept_in[shape] then forget_shape(shape) end
  end
end
