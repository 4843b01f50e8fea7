-- Marks are letters in a job's state that say what options it has, so that a job without them costs
-- nothing: d was put off, e may expire, g is awaited by another, l stands in lines, t says how long it
-- is kept, u has a unique key.
-- include: base

local function has(marks, letter)
  return marks and find(marks, letter, 1, true) ~= nil
end

-- The marks of a job that has this fairness key and these limits from now on.
local function with_line(marks, key, limits)
  marks = string.gsub(marks or '', 'l', '')
  return (key or limits) and marks .. 'l' or marks
end

local function with_delayed(marks, delayed)
  marks = string.gsub(marks or '', 'd', '')
  return delayed and marks .. 'd' or marks
end
