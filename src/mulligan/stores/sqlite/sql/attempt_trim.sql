-- ?1 job, ?2 how many of its newest attempts to keep
DELETE FROM attempt
WHERE job = ?1 AND place <= (
    SELECT place FROM attempt WHERE job = ?1 ORDER BY place DESC LIMIT 1 OFFSET ?2
)
