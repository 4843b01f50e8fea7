-- Leases. `running` holds one text per running job: counts, flags, when it was leased, when it
-- started, region, lane and worker, with tabs between. The jobs of one claim mostly have the same
-- text, which is put together and taken apart once. The job's own state is written when the lease
-- ends. Counts are token, retries, replays and snoozes, with spaces between. Flags: r is a retry,
-- s needs a look at its state when it ends (unique key, gather, permits).
-- include: base

local FIRST_COUNTS = '1 0 0 0'
local known_leases = {}

local function lease_text(counts, flags, leased, started, region, lane, worker)
  return counts .. '\t' .. flags .. '\t' .. leased .. '\t' .. started .. '\t' .. region .. '\t'
    .. lane .. '\t' .. worker
end

local function read_lease(text)
  local lease = known_leases[text]
  if not lease then
    lease = {}
    lease.counts, lease.flags, lease.leased, lease.started, lease.region, lease.lane, lease.worker =
      match(text, '^([^\t]*)\t(%a*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$')
    lease.token_text = match(lease.counts, '^%d+')
    lease.token = tonumber(lease.token_text)
    lease.ran = lease.started .. ' ' .. lease.region
    lease.is_retry = find(lease.flags, 'r', 1, true) ~= nil
    lease.is_special = find(lease.flags, 's', 1, true) ~= nil
    known_leases[text] = lease
  end
  return lease
end

-- The next token, and the text of the counts with it.
local function next_counts(counts)
  if not counts then return 1, FIRST_COUNTS end
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
