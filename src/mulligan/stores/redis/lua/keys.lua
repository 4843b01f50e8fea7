-- Read the fairness keys of a queue that have jobs waiting.
-- KEYS[1]  prefix
-- ARGV     now, queue as keys spell it, how many at most
-- Result   for each, those with most jobs first: lane, key, how many jobs, by how much its turn is
--          past that of the lane
-- include: base
-- include: lanes

local most, found, by_key = tonumber(ARGV[3]), {}, {}

local function count_lane(lane)
  local keys = p .. 'keys:' .. lane
  local present = tonumber(match(call('HGET', p .. 'fair', lane) or '0 0', ' (%d+)$'))

  -- Count the jobs of a line of the key; an only job is in its line's record.
  local function count_line(key, tag)
    local each = by_key[lane .. '\t' .. key]
    if not each then
      local turn = tonumber(match(call('HGET', keys, key) or '0', '^%d+'))
      each = { lane, key, 0, math.max(0, turn - present) }
      by_key[lane .. '\t' .. key], found[#found + 1] = each, each
    end
    each[3] = each[3] + math.max(1, call('ZCARD', p .. 'line:' .. lane .. ':' .. tag))
  end

  local records = call('HGETALL', keys)
  for at = 1, #records, 2 do
    local key, has_line = records[at], match(records[at + 1], '^%d+\t%d+\t[^\t]')
    if key ~= '' and has_line then count_line(key, key .. '\t') end
  end
  for _, tag in ipairs(call('HKEYS', p .. 'lines:' .. lane)) do
    local key = match(tag, '^[^\t]*')
    if key ~= '' then count_line(key, tag) end
  end
end

for _, lane in ipairs(call('SMEMBERS', p .. 'lanes')) do
  if queue_of(lane) == ARGV[2] then count_lane(lane) end
end
table.sort(found, function(one, other)
  if one[3] ~= other[3] then return one[3] > other[3] end
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)
for at = #found, most + 1, -1 do found[at] = nil end
return found
