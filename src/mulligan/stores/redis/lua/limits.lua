-- Read the limits that are stored or in use.
-- KEYS[1]  prefix
-- ARGV     now, how many at most
-- Result   now; then for each, in order of names: the name, what is stored of it, and of what covers
--          it, its state, each or '', the starts that count, and how many jobs wait there
-- include: base
-- include: named_limits

local most, names, seen = tonumber(ARGV[2]), {}, {}

local function note_name(name)
  if not seen[name] then
    seen[name] = true
    names[#names + 1] = name
  end
end

for _, name in ipairs(call('HKEYS', p .. 'limits')) do note_name(name) end
for _, name in ipairs(call('HKEYS', p .. 'limit-states')) do note_name(name) end
for _, member in ipairs(call('ZRANGE', p .. 'waited-for', 0, -1)) do
  note_name(match(member, '^[^\t]*'))
end

-- Lua compares as the server's locale says, which need not be by bytes.
local function comes_before(one, other)
  local at, length = 1, math.min(#one, #other)
  while at <= length and string.byte(one, at) == string.byte(other, at) do at = at + 1 end
  return (string.byte(one, at) or -1) < (string.byte(other, at) or -1)
end

table.sort(names, comes_before)

local function waiting_at(limit)
  local waiting = 0
  for _, member in ipairs(call('ZRANGEBYLEX', p .. 'waited-for', '[' .. limit .. '\t',
    '(' .. limit .. '\t\255')) do
    local lane = sub(member, #limit + 2)
    for _, line in ipairs(call('ZRANGE', p .. 'waits:' .. lane .. ':' .. limit, 0, -1)) do
      local jobs = p .. 'line:' .. lane .. ':' .. match(line, '^[^\t]*\t(.*)$')
      waiting = waiting + math.max(1, call('ZCARD', jobs)) -- an only job is in its line's record
    end
  end
  return waiting
end

local result = { stamp }
for at = 1, math.min(most, #names) do
  local name = names[at]
  local by = named_limits().covering(name)
  result[at + 1] = { name, call('HGET', p .. 'limits', name) or '',
    by and call('HGET', p .. 'limits', by) or '', call('HGET', p .. 'limit-states', name) or '',
    call('LRANGE', p .. 'limit-starts:' .. name, 0, -1), waiting_at(name) }
end
return result
