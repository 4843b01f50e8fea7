-- Read the notes whose keys begin so, in their order.
-- KEYS[1]  prefix
-- ARGV     now, how the keys begin
-- Result   the keys, and their values in the same order
-- include: base, many

local beginning, found = ARGV[2], {}
-- No byte of a text is 255, so this is the range of the keys that begin so.
local keys = call('ZRANGEBYLEX', p .. 'notes', '[' .. beginning, '(' .. beginning .. '\255')
for first = 1, #keys, CHUNK do
  local last = math.min(first + CHUNK - 1, #keys)
  for at, over in ipairs(call('ZMSCORE', p .. 'notes-until', unpack(keys, first, last))) do
    if over and tonumber(over) > now then found[#found + 1] = keys[first + at - 1] end
  end
end
return { found, read_many(p .. 'note-values', found, 1, #found) }
