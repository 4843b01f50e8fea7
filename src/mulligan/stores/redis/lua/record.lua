-- Keep what attempts record whose leases are still held.
-- KEYS[1]  prefix
-- ARGV     now, the worker that is likely to hold them, and for each recording: id, token in 16
--          digits, number of records, and for each of these: key (step:NAME, log, progress,
--          checkpoint), number, value
-- Result   for each recording 1, or 0 if it is stale
-- include: base, memory, records
-- include: find_leases

go_on_when_full()

local function token_held(id)
  local text = call('HGET', running_key(ARGV[2]), id) or find_lease(id)
  return text and sub(text, 1, 16)
end

-- Records that were sent before, by their numbers, are passed over.
local function record(id, token, first, count)
  local last = call('HGET', p .. 'records:' .. id, 'last') or ''
  local last_number = sub(last, 1, 16) == token and tonumber(sub(last, 18)) or 0
  for at = first, first + 3 * count - 1, 3 do
    local number = tonumber(ARGV[at + 1])
    if number > last_number then
      keep_record(id, ARGV[at], ARGV[at + 1], token, stamp, ARGV[at + 2])
      last_number = number
    end
  end
  call('HSET', p .. 'records:' .. id, 'last', token .. ' ' .. format('%d', last_number))
  list_recorded(id)
end

local result, at = {}, 3
while at <= #ARGV do
  local id, token, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local held = token_held(id) == token
  if held then record(id, token, at + 3, count) end
  result[#result + 1] = held and 1 or 0
  at = at + 3 + 3 * count
end
return result
