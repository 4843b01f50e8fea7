-- Move away what another program keeps under the keys of some jobs, where it is of another type.
-- KEYS[1]  prefix
-- ARGV     now, how many jobs to pass over, how many to look at
-- Result   how many were looked at, then the new names of what was moved
-- include: base

local TYPES = { state = 'hash', history = 'list', arrived = 'hash', records = 'hash', log = 'list' }
local from, many = tonumber(ARGV[2]), tonumber(ARGV[3])
local ids = call('ZRANGE', p .. 'order', from, from + many - 1)
local result = { #ids }
for _, id in ipairs(ids) do
  for name, expected in pairs(TYPES) do
    local key = name .. ':' .. id
    local found = call('TYPE', p .. key).ok
    if found ~= expected and found ~= 'none' then
      call('RENAME', p .. key, p .. 'wrong-type:' .. key)
      result[#result + 1] = p .. 'wrong-type:' .. key
    end
  end
end
return result
