-- Unique keys: a job that has not ended holds its key in its queue, or in the queue that it names
-- in `unique_in`, as a later stage does.
-- include: base

local ESCAPES = { ['%'] = '%25', [':'] = '%3A' }

local function escaped(name)
  return (string.gsub(name, '[%%:]', ESCAPES))
end

local function unique_keys(queue, unique_in)
  return p .. 'unique:' .. (unique_in and escaped(unique_in) or queue)
end
