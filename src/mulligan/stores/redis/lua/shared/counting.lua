-- What is counted by queue and region: sums since ever, and sums by slots of a few seconds for what
-- is recent. A place is a queue and a region with a colon between, and a sum is named by its place,
-- a colon and what is counted. How long a slot is and what is recent is as in core/health.py.
-- include: base

local WINDOW, SLOT = 60, 5
local SLOT_KEPT_SECONDS = 2 * WINDOW

local function slot_key(start)
  return p .. 'counted:' .. format('%.0f', start)
end

-- When the slots that are recent began, the newest first.
local function recent_slots()
  local starts, start = {}, math.floor(now / SLOT) * SLOT
  while start >= now - WINDOW do
    starts[#starts + 1] = start
    start = start - SLOT
  end
  return starts
end

-- Every place with recent counts or a breaker.
local function known_places()
  local since = format('%.17g', now - WINDOW)
  local places, seen = call('ZRANGEBYSCORE', p .. 'counted', since, '+inf'), {}
  for _, place in ipairs(places) do seen[place] = true end
  for _, place in ipairs(call('HKEYS', p .. 'breakers')) do
    if not seen[place] then places[#places + 1] = place end
  end
  return places
end

-- For each place: its name, how many recent attempts succeeded and failed since its breaker last
-- opened or closed, and the breaker (open or closed, since, probes, probed_at) or ''.
local function healths(places)
  local fields, rows, since = {}, {}, {}
  for at, breaker in ipairs(read_many(p .. 'breakers', places, 1, #places)) do
    fields[2 * at - 1], fields[2 * at] = places[at] .. ':succeeded', places[at] .. ':failed'
    rows[at] = { places[at], 0, 0, breaker or '' }
    since[at] = breaker and tonumber(match(breaker, ' (%S+) ')) or 0
  end
  for _, start in ipairs(#places > 0 and recent_slots() or {}) do
    local sums = read_many(slot_key(start), fields, 1, #fields)
    for at, row in ipairs(rows) do
      if start >= since[at] then
        row[2] = row[2] + (sums[2 * at - 1] or 0)
        row[3] = row[3] + (sums[2 * at] or 0)
      end
    end
  end
  return rows
end
