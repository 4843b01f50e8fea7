-- What a worker that slept mostly finds when it claims: nothing, or a few plain jobs in one lane,
-- all of which may start. Taking them costs less than defining the functions that walk a plan. ARGV
-- is that of claim.lua.
-- include: lease_text

local FEW = 10

-- Whether the worker is alive, still waits for what is in this shape, and has a plan of today.
local function is_known_sleeper(worker, shape)
  return call('HGET', p .. 'sleepers', worker) == shape
    and tonumber(call('ZSCORE', p .. 'workers', worker) or 0) > now
    and tonumber(call('GET', p .. 'epoch') or 0) == tonumber(ARGV[7])
end

-- The number of the only lane that has jobs, 0 if none has; nil if there are more, or if the plan
-- does not let all of its jobs start.
local function only_lane(from, count)
  local known, number = call('SMISMEMBER', p .. 'lanes', unpack(ARGV, from + 1, from + count)), 0
  for at, has_jobs in ipairs(known) do
    if has_jobs == 1 then
      if number > 0 or sub(ARGV[10], at, at) == '0' then return nil end
      number = at
    end
  end
  return number
end

-- Ids, texts and leases of all jobs in the lane; nil if some have a state, or there are many.
local function few_of(lane, most)
  if call('EXISTS', p .. 'due:' .. lane, p .. 'gone:' .. lane, p .. 'lines:' .. lane,
    p .. 'keys:' .. lane) > 0 then
    return nil
  end
  local members, ids, leases = call('LRANGE', p .. lane, 0, most), {}, {}
  if #members == 0 or #members > most then return nil end
  for at, member in ipairs(members) do ids[at] = sub(member, 18) end
  local texts = call('HMGET', p .. 'jobs', unpack(ids))
  local tail = '\t' .. common_text(FIRST_COUNTS, '', stamp, stamp, ARGV[4], lane)
  for at, text in ipairs(texts) do
    if byte(members[at], 17) ~= COLON or not text or #text < SEQUENCE_WIDTH then return nil end
    leases[2 * at - 1], leases[2 * at] = ids[at], sub(text, 1, 16) .. tail
  end
  return ids, texts, leases
end

-- The claim's result; nil, and nothing is written, if it takes walking the plan to find it.
local function short_claim()
  local worker, demand, shape = ARGV[2], tonumber(ARGV[8]), ARGV[11]
  local lane_count, lanes_from = tonumber(ARGV[14]), 14
  if demand == 0 or lane_count == 0 or lane_count > CHUNK then return nil end
  if not is_known_sleeper(worker, shape) then return nil end
  local number = only_lane(lanes_from, lane_count)
  if not number then return nil end
  local ids, texts, leases, abouts = {}, {}, {}, {}
  if number > 0 then
    local lane = ARGV[lanes_from + number]
    ids, texts, leases = few_of(lane, math.min(FEW, demand - 1))
    if not ids then return nil end
    abouts = { number .. '\t' .. FIRST_COUNTS, #ids, '' }
    -- Memory may be full: this needs none, and so lets the rest through.
    call('DEL', p .. lane)
    call('SREM', p .. 'lanes', lane)
    call('HSET', running_key(worker), unpack(leases))
    call('SADD', p .. 'holders', worker)
  end
  call('DEL', p .. 'wake:' .. worker)
  call('ZADD', p .. 'sleeping:' .. shape, '+inf', worker)
  return { stamp, '', (string.gsub(ARGV[13], '%d+ ?', '0')), ids, texts, abouts }
end
