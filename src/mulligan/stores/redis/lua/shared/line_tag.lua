-- How lines are named.
-- include: named_limits

local TAG_ESCAPES, known_tags = { ['%'] = '%25', ['\t'] = '%09' }, {}

-- The key as the names of lines spell it.
local function key_name(key)
  return find(key, '[%%\t]') and string.gsub(key, '[%%\t]', TAG_ESCAPES) or key
end

-- What tells the line of a job from others of its lane: its key and the names of its limits.
local function tag_of(key, limits)
  local said = key .. '\t' .. limits
  local tag = known_tags[said]
  if not tag then
    tag = key_name(key) .. '\t' .. named_limits().costs_of(limits).joined
    known_tags[said] = tag
  end
  return tag
end
