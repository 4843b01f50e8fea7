-- Names that every script uses. KEYS[1] is the prefix in braces: all keys begin with it, and so
-- live in one slot of a cluster. ARGV[1] is the time in seconds, or '' for the server's own.
-- include: call

local p = KEYS[1] .. ':'
local format, match, find, sub = string.format, string.match, string.find, string.sub

-- Lua takes a few thousand arguments to a call at most; batches are cut below that.
local CHUNK = 2000

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = tonumber(format('%s.%06d', time[1], tonumber(time[2])))
end
local stamp = format('%.6f', now)
