-- Takes the place of call.lua in a script that only reads, where another program keeps a value of
-- another type under one of our keys: such a key reads as if it were absent.

local NUMBERS = { HLEN = true, LLEN = true, ZCARD = true, ZCOUNT = true }
local LISTS = { HGETALL = true, HMGET = true, HVALS = true, LRANGE = true, SMEMBERS = true,
  ZRANGE = true, ZREVRANGE = true, ZRANGEBYSCORE = true, ZREVRANGEBYSCORE = true }

local function call(command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer.err) end
  return NUMBERS[command] and 0 or LISTS[command] and {} or false
end
