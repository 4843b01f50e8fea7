-- Bring some of what layouts 1 and 2 kept into the keys of layout 3. Nobody works with a store that
-- is between them: this release waits until all is moved. Processes that still run on layout 1 are
-- kept out from then on, and those on layout 2 from notes.
-- KEYS[1]  prefix
-- ARGV     now, how many jobs to move at the most
-- Result   the layout that the keys have now
-- include: leases, unique

local limit = tonumber(ARGV[2])
local old_jobs, old_done, old_running = p .. 'old:jobs', p .. 'old:done', p .. 'old:running'

local function set_aside(key, aside)
  if call('EXISTS', key) == 1 then call('RENAME', key, aside) end
end

-- Set aside the keys whose names mean something else now. The scripts of the earlier release first
-- look at the counters, and fail where these are no hash.
local function begin()
  local counters = call('HMGET', p .. 'counters', 'sequence', 'epoch')
  call('SET', p .. 'sequence', counters[1] or 0)
  call('SET', p .. 'epoch', counters[2] or 0)
  call('SET', p .. 'counters', 'layout 2')
  set_aside(p .. 'jobs', old_jobs)
  set_aside(p .. 'done', old_done)
  set_aside(p .. 'running', old_running)
  for _, holder in ipairs(call('SMEMBERS', p .. 'holders')) do call('DEL', running_key(holder)) end
end

-- Tokens were counted from 0 for every job.
local function used_of(counts)
  return (string.gsub(counts, '^%d+', function(token)
    return format('%.0f', token % TOKENS_PER_LIFE)
  end))
end

local KINDS = { ['0'] = 'fresh', ['1'] = 'retry', ['2'] = 'urgent', ['3'] = 'urgent-retry' }

-- The text of a job had its queue, region and priority in place of its lane. A job keeps its place,
-- and one that stood in no lane gets one.
local function move_text(id)
  local place, created_at, queue, region, priority, rest = match(call('GET', p .. 'job:' .. id),
    '^(%d+)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$')
  local lane = (KINDS[priority] or priority) .. ':' .. escaped(queue) .. ':' .. escaped(region)
  local text = place_text(tonumber(place) > 0 and place or next_place())
    .. '\t' .. created_at .. '\t' .. lane .. '\t' .. rest
  call('HSET', p .. 'jobs', id, text)
  call('DEL', p .. 'job:' .. id)
  return text, lane
end

-- What became of a job was in its state, even if it was done.
local function move_state(id, home)
  local key = p .. 'state:' .. id
  local names = { 'sequence', 'counts', 'committed', 'ended', 'ran', 'lane', 'last_retry_at',
    'ended_at', 'result' }
  local state = {}
  for at, value in ipairs(call('HMGET', key, unpack(names))) do state[names[at]] = value end
  if state.sequence then call('HSET', key, 'stands_at', state.sequence) end
  if state.counts then call('HSET', key, 'counts', used_of(state.counts)) end
  if state.committed then call('HSET', key, 'committed', used_of(state.committed)) end
  if state.ended == 'done' then
    local started, region = match(state.ran, '^(%S+) (.*)$')
    local flags = state.last_retry_at == started and 'hr' or 'h'
    local common = common_text(used_of(state.counts), flags, started, started, region,
      state.lane or home)
    call('HSET', p .. 'done', id, common .. '\t' .. state.ended_at .. '\t'
      .. (state.result and '=' .. state.result or ''))
    call('HDEL', key, 'ended', 'ended_at', 'result', 'counts', 'ran')
  end
  call('HDEL', key, 'sequence')
end

-- All leases were in one hash, and each named its worker.
local function move_lease(id, text)
  local lease = call('HGET', old_running, id)
  if not lease then return end
  local counts, flags, leased, started, region, lane, worker = match(lease,
    '^([^\t]*)\t(%a*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$')
  counts = used_of(counts)
  call('HSET', running_key(worker), id, token_of(text, match(counts, '^%d+')) .. '\t'
    .. common_text(counts, 'h' .. flags, leased, started, region, lane))
end

local function move_jobs()
  local found = call('ZRANGE', old_jobs, 0, limit - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    local id = found[at]
    local text, home = move_text(id)
    move_state(id, home)
    move_lease(id, text)
    call('ZADD', p .. 'order', found[at + 1], id)
    call('ZREM', old_jobs, id)
  end
  return #found > 0
end

local function move_done()
  local found = call('ZRANGE', old_done, 0, limit - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    call('RPUSH', p .. 'past', number_text(tonumber(found[at + 1])) .. '\t' .. found[at])
    call('ZREM', old_done, found[at])
  end
  return #found > 0
end

-- Notes were in a hash alone, of which all keys had to be read to find those that begin alike.
local function move_notes()
  if call('EXISTS', p .. 'notes') == 0 then return end
  call('RENAME', p .. 'notes', p .. 'note-values')
  for _, key in ipairs(call('HKEYS', p .. 'note-values')) do call('ZADD', p .. 'notes', 0, key) end
end

if call('GET', p .. 'layout') == '2' then
  move_notes()
  call('SET', p .. 'layout', '3')
end
if call('GET', p .. 'layout') == '1' then
  if call('TYPE', p .. 'counters').ok == 'hash' then begin() end
  if not move_jobs() and not move_done() then
    call('DEL', old_running)
    call('SET', p .. 'layout', '2')
  end
  finish_lanes()
end
return call('GET', p .. 'layout')
