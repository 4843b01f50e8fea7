-- Times as they are written and compared.
-- include: base

-- Six decimals where they say it exactly, as they do for every time but a few that were given.
local function number_text(value)
  local short = format('%.6f', value)
  if tonumber(short) == value then return short end
  return format('%.17g', value)
end

-- A moment to the microsecond: sums of floats drift, and times that are equal must meet.
local function rounded(moment)
  return tonumber(format('%.6f', moment))
end
