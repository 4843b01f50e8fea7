-- Count the jobs before this one in its lane.
-- KEYS[1]  prefix
-- ARGV     now, id
-- Result   how many, or -1 if the job is unknown
-- include: base
-- include: lanes, members, job_text, find_leases

local id = ARGV[2]
local job = call('HMGET', p .. 'state:' .. id, 'lane', 'due', 'sequence', 'awaits', 'ended')
local lane, due, sequence = locate(id, job[1], job[2], job[3])
if not lane then return -1 end
-- Before one that is in no lane there is none.
if tonumber(job[4] or 0) > 0 or job[5] or find_lease(id)
  or call('HEXISTS', p .. 'done', id) == 1 then return 0 end

-- The first index at or after `low`, below `high`, at which `before` no longer holds.
local function search(low, high, before)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(middle) then low = middle + 1 else high = middle end
  end
  return low
end

local function in_sorted(key)
  local score = format('%.17g', due)
  local earlier = call('ZCOUNT', key, '-inf', '(' .. score)
  return search(earlier, earlier + call('ZCOUNT', key, score, score), function(rank)
    return sequence_of(call('ZRANGE', key, rank, rank)[1]) < sequence
  end)
end

local function is_before(member)
  local before = id_of(member)
  local _, other = locate(before, true, call('HGET', p .. 'state:' .. before, 'due'), true)
  return other < due or (other == due and sequence_of(member) < sequence)
end

local function in_list()
  local gone = p .. 'gone:' .. lane
  local length = call('LLEN', p .. lane)
  local last

  -- What is known of one that is gone may be gone too: it goes with the next that is not, and
  -- those at the end count for nobody.
  local function is_before_at(index)
    for at = index, length - 1 do
      local member = call('LINDEX', p .. lane, at)
      if not call('ZSCORE', gone, sub(member, 1, 16)) then return is_before(member) end
    end
    return false
  end

  local count = search(0, length, function(index)
    local before = is_before_at(index)
    if before then last = call('LINDEX', p .. lane, index) end
    return before
  end)
  if last then count = count - call('ZCOUNT', gone, '-inf', sequence_of(last)) end
  return count
end

local count = in_sorted(sorted_key(lane)) + in_sorted(p .. 'lined:' .. lane)
if has_list(lane) then count = count + in_list() end
return count
