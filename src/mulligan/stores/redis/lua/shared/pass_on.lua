-- A sleeper that leaves or died passes on what it may have been woken for.
-- include: sleepers, wakeup, heads

-- The worker waits no longer: wake another sleeper for what is in the lanes that it waited for.
local function pass_on(worker)
  local shape = forget_sleeper(worker)
  local known = shape and call('GET', p .. 'shape:' .. shape)
  if not known then return end
  for _, lane in ipairs(cjson.decode(known).lanes) do
    local due = first_due_in(lane[1])
    if due then wake_for(lane[1], due) end
  end
end
