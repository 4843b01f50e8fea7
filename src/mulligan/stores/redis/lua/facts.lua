-- Read what plans are made from.
-- KEYS[1]  prefix
-- ARGV     now
-- Result   the facts, packed
-- include: base
-- include: facts

return facts()
