-- The rule of limits that jobs name: how much room there is, and what a start charges. A port of
-- core/limits.py, which is the oracle, under the same names. It is made when it is first asked for.
--
-- A limit is what is stored of it, a state what is used of it: see named_limits.lua. Times are whole
-- microseconds.
-- include: base

local function limit_rule()
  local SECOND, PARTS, LONG_UNIT, FOREVER = 1000000, 256, 1000, math.huge
  local LATEST, MOST_OWED = 9007199254740992, 1000000000
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

  local function micros(moment)
    return floor(moment * SECOND + 0.5)
  end

  local now_micros = micros(now)

  -- The cost, or what the limit was lowered to since: such a job starts when nothing is used.
  local function bounded(limit, cost)
    return limit.most_cost and min(cost, limit.most_cost) or cost
  end

  -- How long the bucket takes to refill this cost, rounded up: unit by unit where units are long.
  local function price(limit, cost)
    local rest, owed = limit.window % limit.rate, min(cost, MOST_OWED)
    local whole = (limit.window - rest) / limit.rate
    if whole >= LONG_UNIT then return min(LATEST, owed * (rest > 0 and whole + 1 or whole)) end
    return owed * whole + ceil(owed * rest / limit.rate)
  end

  -- How long an empty bucket takes to fill: by units as above, or rounded down.
  local function allowance(limit)
    local rest = limit.window % limit.rate
    local whole = (limit.window - rest) / limit.rate
    if whole >= LONG_UNIT then return limit.burst * (rest > 0 and whole + 1 or whole) end
    return limit.burst * whole + floor(limit.burst * rest / limit.rate)
  end

  -- The time under which a start is counted: its own, or the end of its part of the window.
  local function counted_at(limit, at)
    if limit.rate <= PARTS then return at end
    local part = max(1, floor(limit.window / PARTS))
    return ceil(at / part) * part
  end

  local function read_start(text)
    local at, cost = match(text, '^(%S+) (%S+)$')
    return tonumber(at), tonumber(cost)
  end

  -- The newest start: when, cost; false if none counts.
  local function last_of(state)
    if state.last == nil then
      local text = state.is_stored and call('LINDEX', state.starts, -1)
      state.last = text and { read_start(text) } or false
    end
    return state.last
  end

  -- Only the newest start changes while a script goes on: it is written once.
  local function write_last(state)
    local last = state.last
    if last and last.changed then
      local text = format('%.0f %.0f', last[1], last[2])
      if last.is_new then
        call('RPUSH', state.starts, text)
      else
        call('LSET', state.starts, -1, text)
      end
      last.is_new, last.changed, state.is_stored = false, false, true
    end
  end

  -- Forget the starts that have left the window.
  local function forget_starts(limit, state)
    while state.is_stored and not state.is_pruned do
      local first = call('LINDEX', state.starts, 0)
      local at, cost = read_start(first or '0 0')
      if not first or at + limit.window > now_micros then
        state.is_pruned = true
        if not first then state.last = false end
      else
        call('LPOP', state.starts)
        state.total = state.total - cost
      end
    end
  end

  -- When there is room for this cost if nothing else happens; FOREVER if only an event makes room.
  local function room_at(limit, state, cost)
    local at = max(now_micros, state.paused_until)
    if not limit then return at end
    if limit.concurrency and state.used >= limit.concurrency then return FOREVER end
    if not limit.rate then return at end
    if limit.burst then
      return max(at, state.full_at + price(limit, bounded(limit, cost)) - allowance(limit))
    end
    local room = limit.rate - bounded(limit, cost)
    if state.total <= room then return at end
    write_last(state)
    local starts = call('LRANGE', state.starts, 0, -1)
    for index = #starts, 1, -1 do
      local when, spent = read_start(starts[index])
      room = room - spent
      if room < 0 then return max(at, when + limit.window) end
    end
    return at
  end

  -- Count a start of this cost, or what a job says later that it has spent.
  local function charge(limit, state, cost)
    state.changed = true
    if not limit or not limit.rate then return end
    if limit.burst then
      state.full_at = min(LATEST, max(state.full_at, now_micros) + price(limit, cost))
      return
    end
    local at = counted_at(limit, now_micros)
    forget_starts(limit, state)
    local last = last_of(state)
    if last and last[1] >= at then
      last[2] = last[2] + cost
    else
      state.last = { at, cost, is_new = true }
    end
    state.last.changed = true
    state.total = state.total + cost
  end

  -- How long the bucket takes to refill a cost of 1.
  local function refill(limit)
    local rest = limit.window % limit.rate
    local whole = (limit.window - rest) / limit.rate
    if whole >= LONG_UNIT then return rest > 0 and whole + 1 or whole end
    return limit.window / limit.rate
  end

  -- Whether a limit that replaces another counts differently what was used of that.
  local function is_recounted(before, after)
    if not (before and after and before.rate and after.rate) then return false end
    if not (before.burst and after.burst) then return not before.burst ~= not after.burst end
    return refill(before) ~= refill(after)
  end

  -- Count what is used of a limit by the rate that replaces its own.
  local function recount(before, after, state)
    state.changed = true
    if not before.burst then
      for _, text in ipairs(call('LRANGE', state.starts, 0, -1)) do
        local when, cost = read_start(text)
        if when + before.window > now_micros then
          local full_at = max(state.full_at, min(when, now_micros)) + price(after, cost)
          state.full_at = min(LATEST, full_at)
        end
      end
      call('DEL', state.starts)
      state.total, state.last = 0, false
      return
    end
    local lacking = min(MOST_OWED, max(0, state.full_at - now_micros) / refill(before))
    if after.burst then
      state.full_at = min(LATEST, now_micros + ceil(lacking * refill(after)))
      return
    end
    state.full_at = 0
    if lacking > 0 then charge(after, state, ceil(lacking)) end
  end

  -- Take back the charge of a start that never was.
  local function refund(limit, state, cost, started)
    if not limit or not limit.rate then return end
    if limit.burst then
      state.full_at = state.full_at - price(limit, cost)
      return
    end
    local at = counted_at(limit, started)
    if at + limit.window <= now_micros then return end
    write_last(state)
    for index, text in ipairs(call('LRANGE', state.starts, 0, -1)) do
      local when, spent = read_start(text)
      if when >= at then
        local left = max(0, spent - cost)
        call('LSET', state.starts, index - 1, format('%.0f %.0f', when, left))
        state.total, state.last = state.total - spent + left, nil
        return
      end
    end
  end

  -- From when on the state says no more than a new one would; FOREVER while permits are held.
  local function idle_from(limit, state)
    if state.used > 0 then return FOREVER end
    local last = limit and limit.rate and last_of(state)
    return max(last and last[1] + limit.window or 0, state.full_at, state.paused_until)
  end

  return { micros = micros, room_at = room_at, charge = charge, refund = refund,
    idle_from = idle_from, write_last = write_last, is_recounted = is_recounted, recount = recount }
end
