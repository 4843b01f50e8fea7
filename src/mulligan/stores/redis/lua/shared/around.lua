-- Reads around what another program keeps under a key of ours: where it is of another kind than it
-- should be there is nothing, and nothing is changed.

local NUMBERS = { HLEN = true, LLEN = true, ZCARD = true, ZCOUNT = true }
local LISTS = { HGETALL = true, HMGET = true, HVALS = true, LRANGE = true, SMEMBERS = true,
  ZRANGE = true, ZREVRANGE = true, ZRANGEBYSCORE = true, ZREVRANGEBYSCORE = true }

local function call_around(command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer.err) end
  return NUMBERS[command] and 0 or LISTS[command] and {} or false
end

