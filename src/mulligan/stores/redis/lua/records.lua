-- Read what a job has recorded.
-- KEYS[1]  prefix
-- ARGV     now, id, length of the longest step or checkpoint to give, or -1
-- Result   for each record its key (log for a line), token, number and time, the length of its
--          value, and the value, or '' if it is a longer step or checkpoint
-- include: base

local id, most = ARGV[2], tonumber(ARGV[3])
local result = {}

local function add(key, text)
  local head, value = match(text, '^(%d+ %d+ [%d.e+-]+) (.*)$')
  if not head then return end
  local length = #value
  local may_be_left_out = key == 'checkpoint' or sub(key, 1, 5) == 'step:'
  result[#result + 1] = key
  result[#result + 1] = head
  result[#result + 1] = length
  result[#result + 1] = (may_be_left_out and most >= 0 and length > most) and '' or value
end

local cells = call('HGETALL', p .. 'records:' .. id)
for at = 1, #cells, 2 do
  if cells[at] ~= 'last' then add(cells[at], cells[at + 1]) end
end
for _, text in ipairs(call('LRANGE', p .. 'log:' .. id, 0, -1)) do add('log', text) end
return result
