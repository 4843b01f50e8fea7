-- What a claim needs of a job's state.
-- include: base

-- The fields that a claim carries, in the order of core/fields.py.
local CLAIM_FIELDS = { 'limits', 'trail' }
