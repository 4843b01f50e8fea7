-- Unique keys: a job that has not ended holds its key in its queue, or in the queue that it names
-- in `unique_in`, as a later stage does.
-- include: lanes

local ESCAPES = { ['%'] = '%25', [':'] = '%3A' }

local function escaped(name)
  return (string.gsub(name, '[%%:]', ESCAPES))
end

local function unique_keys(queue, unique_in)
  return p .. 'unique:' .. (unique_in and escaped(unique_in) or queue)
end

-- Give up the unique key of a job that ends.
local function free_unique(id, queue, key, unique_in)
  local keys = key and unique_keys(queue, unique_in)
  if keys and call('HGET', keys, key) == id then call('HDEL', keys, key) end
end
