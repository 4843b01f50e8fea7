-- Joining a lane with a new sequence. What can be is written once, when the script ends.
-- include: insert, lines, sequences, times, many

-- Sequences grow from job to job and are never given twice. The one that a job's text begins with
-- is also the token of its first claim: they lie so far apart that the tokens of a job are above
-- those of any earlier job of its id. As in core/job.py.
local TOKENS_PER_LIFE = 4096
local newest_sequence, written_sequence
-- By lane, those that join the end of its list in this script.
local newcomers = {}

local function last_sequence()
  if not newest_sequence then
    newest_sequence = 1 + TOKENS_PER_LIFE * (call('GET', p .. 'sequence') or 0)
    written_sequence = newest_sequence
  end
  return newest_sequence
end

local function next_sequence()
  newest_sequence = last_sequence() + TOKENS_PER_LIFE
  return newest_sequence
end

local function newcomers_of(lane)
  local members = newcomers[lane]
  if not members then
    members = {}
    newcomers[lane] = members
  end
  return members
end

-- Put the job where its due time and sequence say: into the lane, or into a line of it if it has a
-- fairness key or names limits.
local function insert(id, lane, due, sequence, key, limits, is_plain)
  if key or limits then
    lines().stand(id, lane, due, sequence, key or '', limits or '', is_plain)
  else
    insert_by_due(member_of(sequence, id), lane, due)
  end
end

-- Let the job join a lane, due after the delay, or a line of it. Gives its due time, its sequence,
-- and whether it was put off. In a list, a colon after the sequence says that the job has no state,
-- and a `!` that it has one.
local function join(id, lane, delay, key, limits, is_plain)
  local sequence, due = next_sequence(), now
  if delay ~= 0 then due = rounded(now + delay) end
  if due == now and has_list(lane) and not (key or limits) then
    local members = newcomers_of(lane)
    members[#members + 1] = sequence_text(sequence) .. '!' .. id
    wake_for(lane, due)
  else
    insert(id, lane, due, sequence, key, limits, is_plain and due == now)
    if due > now then
      call('ZADD', p .. 'delayed:' .. queue_of(lane), due, member_of(sequence, id))
    end
  end
  return due, sequence, due > now
end

-- Write what was put off: the counter of sequences, the newcomers, and what stands in lines.
local function finish_join()
  if newest_sequence ~= written_sequence then
    call('SET', p .. 'sequence', (newest_sequence - 1) / TOKENS_PER_LIFE)
  end
  for lane, members in pairs(newcomers) do
    if members[1] then note_lane(lane) end
    call_many('RPUSH', p .. lane, members)
  end
  finish_lines()
end
