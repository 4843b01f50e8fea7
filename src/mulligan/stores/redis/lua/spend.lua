-- Charge a limit so much, room or not.
-- KEYS[1]  prefix
-- ARGV     now, name, cost
-- Result   1
-- include: base, memory, times
-- include: lines

go_on_when_full()
named_limits().spend(ARGV[2], tonumber(ARGV[3]))
finish_lines()
return 1
