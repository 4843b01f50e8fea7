-- What is counted by queue and region: sums since ever, and sums by slots of a few seconds for what
-- is recent. A sum is named by queue, region and what is counted, with colons between. How long a
-- slot is and what is recent is as in core/health.py.
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
