-- The counts of a job as numbers, and back: see lease_text.lua.
-- include: base

-- Tokens used, retries, replays and snoozes.
local function read_counts(counts)
  local used, retries, replays, snoozes = match(counts, '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(used), tonumber(retries), tonumber(replays), tonumber(snoozes)
end

local function counts_text(used, retries, replays, snoozes)
  return format('%.0f %.0f %.0f %.0f', used, retries, replays, snoozes)
end
