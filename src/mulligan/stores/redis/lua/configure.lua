-- Store the settings of a queue.
-- KEYS[1]  prefix
-- ARGV     now, queue, settings as JSON
-- Result   1 if they changed
-- include: base, memory
-- include: epoch

if call('HGET', p .. 'queues', ARGV[2]) == ARGV[3] then return 0 end
stop_when_full()
call('HSET', p .. 'queues', ARGV[2], ARGV[3])
change_facts()
return 1
