-- Ordinary jobs, which most are: they wait for their first attempt, have no state, and stand in a
-- list as place, colon, id. And the texts of leases, by which they are held like all others.
-- include: base

local byte = string.byte
local COLON, FIRST_COUNTS = byte(':'), '1 0 0 0'
-- What every text begins with, a place and a tab; a shorter one is damaged.
local PLACE_WIDTH = 17

local function running_key(worker)
  return p .. 'running:' .. worker
end

-- What leases may have in common.
local function common_text(counts, flags, leased, started, region, lane)
  return counts .. '\t' .. flags .. '\t' .. leased .. '\t' .. started .. '\t' .. region .. '\t'
    .. lane
end
