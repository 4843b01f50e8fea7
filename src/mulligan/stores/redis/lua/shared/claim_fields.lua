-- What a claim needs of a job's state.
-- include: base

-- The fields that the worker is given as they are, in the order of Claim in core/job.py.
local CLAIM_FIELDS = { 'trail' }
