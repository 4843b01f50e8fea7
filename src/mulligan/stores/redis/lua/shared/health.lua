-- The health of regions. A name is a queue and a region with a colon between.
-- include: slots, many

-- For each name: the name, how many recent attempts succeeded and failed there since its breaker
-- last opened or closed, and the breaker (open or closed, since, probes, probed_at) or ''.
local function healths(names)
  local fields, rows, since = {}, {}, {}
  for at, breaker in ipairs(read_many(p .. 'breakers', names, 1, #names)) do
    fields[2 * at - 1], fields[2 * at] = names[at] .. ':succeeded', names[at] .. ':failed'
    rows[at] = { names[at], 0, 0, breaker or '' }
    since[at] = breaker and tonumber(match(breaker, ' (%S+) ')) or 0
  end
  for _, start in ipairs(#names > 0 and recent_slots() or {}) do
    local sums = read_many(slot_key(start), fields, 1, #fields)
    for at, row in ipairs(rows) do
      if start >= since[at] then
        row[2] = row[2] + (sums[2 * at - 1] or 0)
        row[3] = row[3] + (sums[2 * at] or 0)
      end
    end
  end
  return rows
end
