-- Read the notes whose keys begin so.
-- KEYS[1]  prefix
-- ARGV     now, how the keys begin
-- Result   the keys, and their values in the same order
-- include: base

local beginning, found = ARGV[2], {}
local after_now = '(' .. format('%.17g', now)
for _, key in ipairs(call('ZRANGEBYSCORE', p .. 'notes-until', after_now, '+inf')) do
  if sub(key, 1, #beginning) == beginning then found[#found + 1] = key end
end
return { found, read_many(p .. 'notes', found, 1, #found) }
