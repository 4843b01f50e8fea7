-- ?1 first place, ?2 last place
-- gives the places between them that are taken
SELECT place FROM job WHERE place BETWEEN ? AND ?
