-- Store a limit as an app declares it, or as an operator sets it; who waits may have room now.
-- KEYS[1]  prefix
-- ARGV     now, name, declared or set, the limit as JSON or '' for none
-- Result   1 if that changed anything
-- include: base, memory
-- include: lines

go_on_when_full()
local name = ARGV[2]
local before = call('HGET', p .. 'limits', name) or '\n'
local declared, set = match(before, '^([^\n]*)\n(.*)$')
if ARGV[3] == 'declared' then declared = ARGV[4] else set = ARGV[4] end
local after = declared .. '\n' .. set
if after == before then return 0 end

named_limits().store(name, after)

-- What it covers: its own name, or all that begin as the pattern does.
local first, last = '[' .. name .. '\t', '(' .. name .. '\t\255'
if sub(name, -1) == '*' then first, last = '[' .. sub(name, 1, -2), '(' .. sub(name, 1, -2) .. '\255' end
local seen = {}
for _, member in ipairs(call('ZRANGEBYLEX', p .. 'waited-for', first, last)) do
  local waited_for = match(member, '^[^\t]*')
  if not seen[waited_for] then
    seen[waited_for] = true
    lines().opened(waited_for)
  end
end
finish_lines()
return 1
