-- Names that every script uses. KEYS[1] is the prefix in braces: all keys begin with it, and so
-- live in one slot of a cluster. ARGV[1] is the time in seconds, or '' for the server's own.

local p = KEYS[1] .. ':'
local call, format, match = redis.call, string.format, string.match
local find, sub = string.find, string.sub

-- Lua takes a few thousand arguments to a call at most; batches are cut below that.
local CHUNK = 2000

local function read_clock()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local time = call('TIME')
  return tonumber(format('%s.%06d', time[1], tonumber(time[2])))
end

local now = read_clock()
local stamp = format('%.6f', now)

-- Six decimals where they say it exactly, as they do for every time but a few that were given.
local function number_text(value)
  local short = format('%.6f', value)
  if tonumber(short) == value then return short end
  return format('%.17g', value)
end

-- A moment to the microsecond: sums of floats drift, and times that are equal must meet.
local function rounded(moment)
  return tonumber(format('%.6f', moment))
end

-- One command with any number of values.
local function call_many(command, key, values)
  for first = 1, #values, CHUNK do
    call(command, key, unpack(values, first, math.min(first + CHUNK - 1, #values)))
  end
end

-- The values of many fields, in their order; false where there is none.
local function read_many(key, fields, first, last)
  if last - first < CHUNK then
    if last < first then return {} end
    return call('HMGET', key, unpack(fields, first, last))
  end
  local values = {}
  for from = first, last, CHUNK do
    local part = call('HMGET', key, unpack(fields, from, math.min(from + CHUNK - 1, last)))
    for _, value in ipairs(part) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Redis refuses a script's first write when memory is full if that write could need more. What
-- finishes or frees work begins with a write that needs none, and so is let through.
local function go_on_when_full()
  call('DEL', p .. 'none')
end

-- What adds work begins with a write that a full memory refuses, before anything is changed.
local function stop_when_full()
  call('SETNX', p .. 'sequence', 0)
end
