-- The texts of new jobs, written once when the script ends.
-- include: join

local new_jobs, new_sequences, new_count = {}, {}, 0
-- By id, whether a job is stored, as far as that was asked.
local stored = {}

local function is_stored(id)
  if stored[id] == nil then stored[id] = call('HEXISTS', p .. 'jobs', id) == 1 end
  return stored[id]
end

local function keep_job(id, sequence, text)
  local at = 2 * new_count
  new_count, stored[id] = new_count + 1, true
  new_jobs[at + 1], new_jobs[at + 2] = id, text
  new_sequences[at + 1], new_sequences[at + 2] = sequence, id
end

local function write_jobs()
  call_many('HSET', p .. 'jobs', new_jobs)
  call_many('ZADD', p .. 'order', new_sequences)
  new_jobs, new_sequences, new_count = {}, {}, 0
end

local function finish_add()
  write_jobs()
  finish_join()
end
