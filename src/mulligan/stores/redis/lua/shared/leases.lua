-- Leases as they are read: see lease_text.lua. A job's own state is written when its lease ends. Of
-- a job that is done, `done` keeps what the lease had in common with others, when it ended, and its
-- result with a sign before it, or nothing.
-- include: lease_text

local known_commons = {}

-- What a text says that leases have in common, taken apart once; if their job is done, with when it
-- ended.
local function read_common(common)
  local lease = known_commons[common]
  if not lease then
    lease = { common = common }
    lease.counts, lease.flags, lease.limits, lease.leased, lease.started, lease.region, lease.lane,
      lease.ended_at = match(common,
      '^([^\t]*)\t(%a*)([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t?([^\t]*)')
    if lease.limits == '' then
      lease.limits = nil
    else
      lease.common = common_text(lease.counts, lease.flags, lease.leased, lease.started,
        lease.region, lease.lane)
    end
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
