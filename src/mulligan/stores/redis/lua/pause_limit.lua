-- Let nobody of a limit start for so long; 0 ends a pause.
-- KEYS[1]  prefix
-- ARGV     now, name, seconds, whether a longer pause stays: 0 or 1
-- Result   1
-- include: base, memory, times
-- include: lines

go_on_when_full()
named_limits().pause(ARGV[2], rounded(now + tonumber(ARGV[3])), ARGV[4] == '1')
lines().opened(ARGV[2])
finish_lines()
return 1
