-- Move messages from a queue into a batch, in one step.
-- KEYS: whence, the batch, the set of batches, the index of a hash.
-- ARGV: how members are removed, the batch's name, then each member and what the batch keeps of it.
-- Returns for each 1, or 0 if it is gone.
local taken, any = {}, false
for i = 3, #ARGV, 2 do
  local member, gone = ARGV[i], 0
  if ARGV[1] == 'first' then gone = redis.call('LREM', KEYS[1], 1, member)
  elseif ARGV[1] == 'last' then gone = redis.call('LREM', KEYS[1], -1, member)
  elseif ARGV[1] == 'sorted' then gone = redis.call('ZREM', KEYS[1], member)
  else
    gone = redis.call('HDEL', KEYS[1], member)
    redis.call('ZREM', KEYS[4], member)
  end
  if gone == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[i + 1])
    any = true
  end
  taken[#taken + 1] = gone
end
if any then redis.call('SADD', KEYS[3], ARGV[2]) end
return taken
