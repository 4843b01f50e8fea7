-- ?1 gathering job
-- gives (place, result) in order of place
SELECT place, CAST(result AS BLOB) FROM arrival WHERE job = ? ORDER BY place
