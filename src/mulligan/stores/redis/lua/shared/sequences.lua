-- Sequences as they are written: in 16 digits. The member of a lane is `sequence:id`, so that
-- members with the same due time sort by sequence.
-- include: base

local function sequence_text(sequence)
  return format('%016.0f', sequence)
end

local function member_of(sequence, id)
  return sequence_text(sequence) .. ':' .. id
end
