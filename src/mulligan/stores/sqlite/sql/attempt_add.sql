-- ?1 job, ?2 number, ?3 replay, ?4 region, ?5 worker, ?6 started_at, ?7 ended_at, ?8 type,
-- ?9 message, ?10 code, ?11 delay, ?12 refused
INSERT INTO attempt (
    job, number, replay, region, worker, started_at, ended_at, type, message, code, delay, refused
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
