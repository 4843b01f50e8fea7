-- ?1 and ?2 job, ?3 how many of its newest attempts to keep
DELETE FROM attempt
WHERE job = ? AND place <= (
    SELECT place FROM attempt WHERE job = ? ORDER BY place DESC LIMIT 1 OFFSET ?
)
