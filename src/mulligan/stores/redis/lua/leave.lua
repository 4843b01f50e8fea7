-- Forget a worker; what it still holds may be reclaimed at once.
-- KEYS[1]  prefix
-- ARGV     now, worker
-- Result   1
-- include: base, memory
-- include: dismiss, pass_on

go_on_when_full()
dismiss(ARGV[2])
pass_on(ARGV[2])
return 1
