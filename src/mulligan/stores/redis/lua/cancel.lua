-- End pending and running jobs.
-- KEYS[1]  prefix
-- ARGV     now, reason, ids
-- Result   for each 1, or 0 if it is unknown or has ended
-- include: base, memory, many
-- include: cancel

go_on_when_full()
find_leases({ unpack(ARGV, 3) })
local result = {}
for at = 3, #ARGV do
  result[at - 2] = cancel(ARGV[at], ARGV[2]) and 1 or 0
end
finish_join()
finish_end()
return result
