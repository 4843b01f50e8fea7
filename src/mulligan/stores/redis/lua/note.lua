-- Keep a value for a while, or forget it.
-- KEYS[1]  prefix
-- ARGV     now, key, seconds to keep it, and the value, if it is to be kept
-- Result   1
-- include: base

local key, value = ARGV[2], ARGV[4]
if value then
  call('HSET', p .. 'note-values', key, value)
  call('ZADD', p .. 'notes', 0, key)
  call('ZADD', p .. 'notes-until', now + tonumber(ARGV[3]), key)
else
  call('HDEL', p .. 'note-values', key)
  call('ZREM', p .. 'notes', key)
  call('ZREM', p .. 'notes-until', key)
end
return 1
