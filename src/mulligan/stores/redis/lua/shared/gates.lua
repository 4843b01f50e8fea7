-- Gates during a claim: what they allow, and what passes through them. Numbers are read once and
-- written back once.
-- include: permits

local used, windows = {}, {}

local function permits_used(key)
  if not used[key] then used[key] = call('SCARD', p .. 'permits:' .. key) end
  return used[key]
end

-- Give the job a permit; gives the names of its permits so far, one a line.
local function charge(key, id, permits)
  local before = permits_used(key)
  used[key] = before + call('SADD', p .. 'permits:' .. key, id)
  return permits and permits .. '\n' .. key or key
end

-- The starts that count now: their number, the first of them, and how many this claim adds.
local function window(key, per)
  local known = windows[key]
  if known then return known end
  known = { total = tonumber(call('HGET', p .. 'started', key) or 0), added = 0 }
  local list = p .. 'starts:' .. key
  while true do
    local first = call('LINDEX', list, 0)
    if not first then break end
    local at, count = match(first, '^(%S+) (%d+)$')
    if rounded(tonumber(at) + per) > now then
      known.first = tonumber(at)
      break
    end
    call('LPOP', list)
    known.total, known.changed = known.total - tonumber(count), true
  end
  windows[key] = known
  return known
end

local function open_gates(stored)
  local gates = {}
  for number, gate in ipairs(stored) do
    gates[number] = { kind = gate[1], key = gate[2], limit = gate[3], per = gate[4],
      ratio = gate[5], of = gate[6] }
    -- A rate that only counts is sent with a limit below any.
    if gate[3] < 0 and gate[1] == 'rate' then gates[number].limit = nil end
  end
  return gates
end

-- How many more starts the gate allows now.
local function gate_room(gate)
  if gate.kind == 'running' then return gate.limit - permits_used(gate.key) end
  if not gate.limit then return 1 end
  local limit = gate.limit
  if gate.of ~= '' then
    limit = math.max(limit, math.floor(gate.ratio * window(gate.of, gate.per).total))
  end
  return limit - window(gate.key, gate.per).total
end

local function all_open(gates)
  for _, gate in ipairs(gates) do
    if gate_room(gate) <= 0 then return false end
  end
  return true
end

-- Seconds until a closed gate opens by itself; nil if only another's end opens it.
local function reopens_in(gate)
  if gate.kind == 'running' then return nil end
  local first = window(gate.key, gate.per).first
  return first and rounded(first + gate.per) - now
end

-- Let the job through; gives the names of its permits.
local function pass(gate, id, permits)
  if gate.kind == 'running' then return charge(gate.key, id, permits) end
  local known = window(gate.key, gate.per)
  -- Fresh starts are many and need no exact window: a second each is enough, rounded down.
  known.at = gate.limit and now or math.floor(now)
  known.first = known.first or known.at
  known.total, known.added, known.changed = known.total + 1, known.added + 1, true
  return permits
end

local function close_gates()
  for key, known in pairs(windows) do
    if known.added > 0 then
      local list = p .. 'starts:' .. key
      local last = call('LINDEX', list, -1)
      local at, count = match(last or '', '^(%S+) (%d+)$')
      if at and tonumber(at) == known.at then
        call('LSET', list, -1, at .. ' ' .. (tonumber(count) + known.added))
      else
        call('RPUSH', list, number_text(known.at) .. ' ' .. known.added)
      end
      ring_share(key)
    end
    if known.changed then call('HSET', p .. 'started', key, known.total) end
  end
end
