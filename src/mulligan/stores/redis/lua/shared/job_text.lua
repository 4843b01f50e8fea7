-- Jobs as they were enqueued. Each is one text: sequence, time, lane, task and body, with tabs
-- between. Its state, a hash, says only what is different since: a job that waits for its first
-- attempt with no options, or was done in it, has none.
-- include: base

local function read_header(id)
  local text = call('HGET', p .. 'jobs', id)
  if not text then return nil end
  return match(text, '^(%d+)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t')
end

-- Lane, due time and sequence of a job, given what its state says of them.
local function locate(id, lane, due, sequence)
  if not (lane and due and sequence) then
    local first, created_at, home = read_header(id)
    if not first then return nil end
    lane, due, sequence = lane or home, due or created_at, sequence or first
  end
  return lane, tonumber(due) or now, tonumber(sequence) or 0
end
