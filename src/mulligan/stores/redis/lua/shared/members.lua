-- Members of lanes, which are written by sequences.lua, taken apart.
-- include: base

local function id_of(member)
  return sub(member, 18)
end

local function sequence_of(member)
  return tonumber(sub(member, 1, 16))
end
