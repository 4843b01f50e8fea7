-- Leases. `running` holds one text per running job: counts, sequence, flags, when it was
-- leased, when it started, region, lane and worker, with tabs between. The job's own hash is written when the lease ends.
-- Counts are token, retries, replays and snoozes, with spaces between.
-- Flags: r is a retry, s needs a look at its hash when it ends (unique key, permits).
-- include: base

local parted = {}

-- What the leases of one claim share: its times, region, lane and worker.
local function shared_part(leased, started, region, lane, worker)
  return '\t' .. leased .. '\t' .. started .. '\t' .. region .. '\t' .. lane .. '\t' .. worker
end

-- The next token, and the text of the counts with it.
local function next_counts(counts)
  if not counts then return 1, '1 0 0 0' end
  local token, others = match(counts, '^(%d+)(.*)$')
  return tonumber(token) + 1, (tonumber(token) + 1) .. others
end

-- The counts as numbers: token, retries, replays, snoozes.
local function read_counts(counts)
  local token, retries, replays, snoozes = match(counts or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(token), tonumber(retries), tonumber(replays), tonumber(snoozes)
end

local function counts_text(token, retries, replays, snoozes)
  return format('%.0f %.0f %.0f %.0f', token, retries, replays, snoozes)
end

-- Token, counts, sequence (16 digits) and flags of a lease, and what it shares with others.
local function read_lease(text)
  local counts, place, flags, rest = match(text, '^([^\t]*)\t(%d+)\t(%a*)(\t.*)$')
  local part = parted[rest]
  if not part then
    part = {}
    part.leased, part.started, part.region, part.lane, part.worker =
      match(rest, '^\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$')
    part.ran = part.started .. ' ' .. part.region
    parted[rest] = part
  end
  return tonumber(match(counts, '^%d+')), counts, place, flags, part
end
