-- Move entries of the inbox to where they wait for acceptance. An entry leaves there only in the
-- step that accepts or refuses it, so that none is lost with the process that looks at it.
-- KEYS[1]  prefix
-- ARGV     now, limit
-- Result   the entries that wait, at most the limit
-- include: base, memory

go_on_when_full()
local taken = p .. 'inbox:taken'
for _ = call('LLEN', taken) + 1, tonumber(ARGV[2]) do
  if not call('LMOVE', p .. 'inbox', taken, 'LEFT', 'RIGHT') then break end
end
return call('LRANGE', taken, 0, tonumber(ARGV[2]) - 1)
