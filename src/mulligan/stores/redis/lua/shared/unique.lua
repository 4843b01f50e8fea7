-- Unique keys: a job that has not ended holds its key in its queue, or in the queue that it names
-- in `unique_in`, as a later stage does. A debounced job holds it until it first starts, a throttled
-- one until its time is over too, unless it was cancelled. As in core/unique.py.
-- include: find_leases, tokens

local ESCAPES = { ['%'] = '%25', [':'] = '%3A' }
-- Jobs that ran when this script began, and run no more.
local stopped = {}

local function escaped(name)
  return (string.gsub(name, '[%%:]', ESCAPES))
end

local function unique_keys(queue, unique_in)
  return p .. 'unique:' .. (unique_in and escaped(unique_in) or queue)
end

-- Whether the job that had its key last has it still.
local function holds_key(id)
  local job = call('HMGET', p .. 'state:' .. id, 'debounce_until', 'unique_until', 'ended', 'counts')
  if job[1] then
    local is_running = not stopped[id] and find_lease(id)
    return not is_running and never_started(job[4] or NO_COUNTS)
  elseif job[2] and (job[3] or call('HEXISTS', p .. 'done', id) == 1) then
    return (tonumber(job[2]) or 0) > now
  end
  return true
end

-- The id of the job that holds the key, if one does.
local function key_holder(keys, key)
  local id = call('HGET', keys, key)
  return id and holds_key(id) and id
end
