-- Commands with any number of values.
-- include: base

-- One command for any number of values.
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
