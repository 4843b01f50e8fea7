-- The texts of leases. `running:WORKER` holds one text per job that the worker runs: token in 16
-- digits, counts, flags, when it was leased, when it started, region and lane, with tabs between.
-- The jobs of one claim mostly have all but the token in common.
--
-- Counts are tokens used, retries, replays and snoozes, with spaces between. Flags: h has a state
-- of its own, r is a retry, s needs a look at its state when it ends (unique key, gather, permits).
-- After them come the limits that it holds permits of, as its state has them.
-- include: base

local byte = string.byte
local COLON, FIRST_COUNTS = byte(':'), '1 0 0 0'
-- What every job's text begins with, a sequence and a tab; a shorter one is invalid.
local SEQUENCE_WIDTH = 17

local function running_key(worker)
  return p .. 'running:' .. worker
end

-- What leases may have in common.
local function common_text(counts, flags, leased, started, region, lane)
  return counts .. '\t' .. flags .. '\t' .. leased .. '\t' .. started .. '\t' .. region .. '\t'
    .. lane
end
