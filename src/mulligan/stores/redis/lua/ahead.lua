-- Count the jobs that stand before this one in its lane.
-- KEYS[1]  prefix
-- ARGV     now, id
-- Result   how many, or -1 if the job is unknown
-- include: permits, leases

local id = ARGV[2]
local job = call('HMGET', p .. 'state:' .. id, 'lane', 'due', 'stands_at', 'awaits', 'ended')
local lane, due, place = whereabouts(id, job[1], job[2], job[3])
if not lane then return -1 end
-- Before one that stands in no lane stands nobody.
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
    return place_of(call('ZRANGE', key, rank, rank)[1]) < place
  end)
end

local function is_before(member)
  local before = id_of(member)
  local _, other = whereabouts(before, true, call('HGET', p .. 'state:' .. before, 'due'), true)
  return other < due or (other == due and place_of(member) < place)
end

local function in_line()
  local gone = p .. 'gone:' .. lane
  local length = call('LLEN', p .. lane)
  local last

  -- What is known of one that is gone may be gone too: it goes with the next that is not, and
  -- those at the end count for nobody.
  local function stands_before(index)
    for at = index, length - 1 do
      local member = call('LINDEX', p .. lane, at)
      if not call('ZSCORE', gone, sub(member, 1, 16)) then return is_before(member) end
    end
    return false
  end

  local count = search(0, length, function(index)
    local before = stands_before(index)
    if before then last = call('LINDEX', p .. lane, index) end
    return before
  end)
  if last then count = count - call('ZCOUNT', gone, '-inf', place_of(last)) end
  return count
end

local count = in_sorted(sorted_key(lane)) + in_sorted(held_key(lane))
if has_line(lane) then count = count + in_line() end
return count
