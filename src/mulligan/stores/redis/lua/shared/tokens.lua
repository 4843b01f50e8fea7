-- How many tokens a job has used: the first of its counts, see lease_text.lua.
-- include: sequences

local NO_COUNTS = '0 0 0 0'

-- The counts with one more token used, and how many that makes. What is invalid stays as it is, and
-- who claims it sees that.
local function next_counts(counts)
  local used, others = match(counts, '^(%d+)( %d+ %d+ %d+)$')
  if not used then return counts, 1 end
  return format('%.0f%s', used + 1, others), used + 1
end

-- Whether no attempt has come of any claim so far: what a drain returned has not started.
local function never_started(counts)
  return find(counts, ' 0 0 0', 1, true) ~= nil
end

-- The token of a job that has used so many, given its text, which begins with the first to be used.
local function token_of(text, used)
  return sequence_text((tonumber(sub(text, 1, 16)) or 0) + used - 1)
end
