-- Marks are letters in a job's state that say what options it has, so that a job without them costs
-- nothing: d was put off, e may expire, g is awaited by another, k has a concurrency key, t says how
-- long it is kept, u has a unique key.
-- include: base

local function has(marks, letter)
  return marks and find(marks, letter, 1, true) ~= nil
end

local function with_delayed(marks, delayed)
  marks = string.gsub(marks or '', 'd', '')
  return delayed and marks .. 'd' or marks
end
