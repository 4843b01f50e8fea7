-- Leases. `running:WORKER` holds one text per job that the worker runs: token in 16 digits, counts,
-- flags, when it was leased, when it started, region and lane, with tabs between. The jobs of one
-- claim mostly have all but the token in common, which is put together and taken apart once. The
-- job's own state is written when the lease ends. Of a job that is done, `done` keeps what the
-- lease had in common with others, when it ended, and its result with a sign before it, or nothing.
--
-- Counts are tokens used, retries, replays and snoozes, with spaces between. Flags: h has a state
-- of its own, r is a retry, s needs a look at its state when it ends (unique key, gather, permits).
-- include: ordinary, lanes

local NO_COUNTS = '0 0 0 0'
local known_commons, found_leases, NOT_HELD = {}, {}, {}

-- What a text says that leases have in common; if their job is done, with when it ended.
local function read_common(common)
  local lease = known_commons[common]
  if not lease then
    lease = { common = common }
    lease.counts, lease.flags, lease.leased, lease.started, lease.region, lease.lane,
      lease.ended_at = match(common,
      '^([^\t]*)\t(%a*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t?([^\t]*)')
    lease.used = match(lease.counts, '^%d+')
    lease.ran = lease.started .. ' ' .. lease.region
    -- Only the lease of a claim begins with the attempt.
    lease.is_reclaimed = lease.leased ~= lease.started
    lease.has_state = find(lease.flags, 'h', 1, true) ~= nil
    lease.is_retry = find(lease.flags, 'r', 1, true) ~= nil
    lease.is_special = find(lease.flags, 's', 1, true) ~= nil
    known_commons[common] = lease
  end
  return lease
end

-- A lease, and its token.
local function read_lease(text)
  return read_common(sub(text, 18)), sub(text, 1, 16)
end

-- The token of a job that has used so many, given its text, which begins with the first to be used.
local function token_of(text, used)
  return place_text((tonumber(sub(text, 1, 16)) or 0) + used - 1)
end

-- Add to a result what is to be known of a job that was reclaimed: id, lane, its text, due or '',
-- counts, trail or '', and worker, region and start of the attempt that was lost.
local function give_reclaimed(result, id, text, counts, lease, holder)
  local at, state = #result, call('HMGET', p .. 'state:' .. id, 'due', 'trail')
  result[at + 1], result[at + 2], result[at + 3] = id, lease.lane, text
  result[at + 4], result[at + 5], result[at + 6] = state[1] or '', counts, state[2] or ''
  result[at + 7], result[at + 8], result[at + 9] = holder, lease.region, lease.started
end

-- Ask every worker which of these jobs it holds.
local function find_leases(ids)
  if #ids == 0 then return end
  for _, worker in ipairs(call('SMEMBERS', p .. 'holders')) do
    for at, text in ipairs(read_many(running_key(worker), ids, 1, #ids)) do
      if text then found_leases[ids[at]] = { text, worker } end
    end
  end
  for _, id in ipairs(ids) do found_leases[id] = found_leases[id] or NOT_HELD end
end

-- The lease of a running job and who holds it, if anybody does.
local function find_lease(id)
  if not found_leases[id] then find_leases({ id }) end
  return found_leases[id][1], found_leases[id][2]
end

-- The counts as numbers: tokens used, retries, replays, snoozes.
local function read_counts(counts)
  local used, retries, replays, snoozes = match(counts, '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(used), tonumber(retries), tonumber(replays), tonumber(snoozes)
end

local function counts_text(used, retries, replays, snoozes)
  return format('%.0f %.0f %.0f %.0f', used, retries, replays, snoozes)
end

-- The counts with one more token used, and how many that makes. What is damaged stays as it is, and
-- who claims it sees that.
local function next_counts(counts)
  local used, others = match(counts, '^(%d+)( %d+ %d+ %d+)$')
  if not used then return counts, 1 end
  return format('%.0f%s', used + 1, others), used + 1
end

-- Whether no attempt has come of any claim so far: what a drain returned has not started.
local function never_started(counts)
  return find(counts, ' 0 0 0', 1, true) ~= nil
end
