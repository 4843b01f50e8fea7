-- ?1 places, a JSON array
-- gives the ids that were deleted
DELETE FROM job WHERE place IN (SELECT value FROM json_each(?)) RETURNING id
