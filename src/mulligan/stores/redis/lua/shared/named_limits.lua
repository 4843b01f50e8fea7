-- Limits that jobs name, as they are stored and used; limit_rule.lua has the rule. It is made when it
-- is first asked for: a script that meets no such job makes one function of it all.
--
-- `limits` has by name what is stored: as declared, a newline, as set, each JSON or nothing.
-- `limit-states` has by name what is used: permits, when the bucket is full, when a pause ends, and
-- the sum of `limit-starts:NAME`, the starts that count: when, cost. Times are whole microseconds. A
-- name is spelled as in JSON, without the quotes.
-- include: base, limit_rule, many, times

local the_limits

local function named_limits()
  if the_limits then return the_limits end
  local SECOND, FOREVER = 1000000, math.huge
  local floor, max, min = math.floor, math.max, math.min
  local rule = limit_rule()
  local micros, room_at, charge, refund = rule.micros, rule.room_at, rule.charge, rule.refund
  local idle_from, write_last = rule.idle_from, rule.write_last
  local limits, known_costs, in_force, states, patterns = {}, {}, {}, {}, nil

  local now_micros = micros(now)

  -- The limits of a job as they are stored, JSON in order of names: names, costs by name, and the
  -- names with tabs between. What another program wrote there counts as far as it can be read.
  function limits.costs_of(text)
    local costs = known_costs[text]
    if costs then return costs end
    local names, by_name, at = {}, {}, find(text, '%c') and #text + 1 or 2
    while sub(text, at, at) == '"' do
      local quote = find(text, '["\\]', at + 1)
      while quote and sub(text, quote, quote) ~= '"' do quote = find(text, '["\\]', quote + 2) end
      local cost, rest = match(text, '^:(%d+)[,}]()', (quote or #text) + 1)
      if not cost then break end
      local name = sub(text, at + 1, quote - 1)
      names[#names + 1], by_name[name], at = name, tonumber(cost), rest
    end
    costs = { names = names, by_name = by_name, joined = table.concat(names, '\t') }
    known_costs[text] = costs
    return costs
  end

  -- The pattern of a stored limit that covers the name: the longest.
  local function pattern_of(name)
    patterns = patterns or call('SMEMBERS', p .. 'limit-patterns')
    local best
    for _, each in ipairs(patterns) do
      local prefix = sub(each, 1, -2)
      if sub(name, 1, #prefix) == prefix and (not best or #each > #best) then best = each end
    end
    return best
  end

  local function read_limit(text)
    local declared, set = match(text or '', '^([^\n]*)\n(.*)$')
    if not declared then return false end
    local limit = cjson.decode(set ~= '' and set or declared)
    limit.window = micros(limit.per or 1)
    limit.most_cost = limit.burst or limit.rate
    return limit
  end

  -- The name of the stored limit that covers the name: itself, or the longest pattern.
  function limits.covering(name)
    return call('HEXISTS', p .. 'limits', name) == 1 and name or pattern_of(name)
  end

  -- What holds for the name; false if nothing does.
  function limits.limit_of(name)
    local limit = in_force[name]
    if limit == nil then
      local text = call('HGET', p .. 'limits', name)
      local pattern = not text and pattern_of(name)
      if pattern then
        limit = in_force[pattern] or read_limit(call('HGET', p .. 'limits', pattern))
        in_force[pattern] = limit
      else
        limit = read_limit(text)
      end
      in_force[name] = limit
    end
    return limit
  end

  local function state_of(name)
    local state = states[name]
    if not state then
      local text = call('HGET', p .. 'limit-states', name)
      local used, full_at, paused_until, total = match(text or '0 0 0 0',
        '^(%S+) (%S+) (%S+) (%S+)$')
      state = { name = name, used = tonumber(used), full_at = tonumber(full_at),
        paused_until = tonumber(paused_until), total = tonumber(total), is_stored = text ~= false,
        starts = p .. 'limit-starts:' .. name }
      states[name] = state
    end
    return state
  end

  -- Forget a state that says nothing any more.
  local function forget(state)
    if idle_from(limits.limit_of(state.name), state) > now_micros then return end
    if state.is_stored then
      call('HDEL', p .. 'limit-states', state.name)
      call('DEL', state.starts)
    end
    states[state.name] = nil
  end

  -- -- what lines and outcomes ask --------------------------------------------------------------

  -- When the limit has room for the cost: now, later, or FOREVER if only by an event.
  function limits.room_at(name, cost)
    local at = room_at(limits.limit_of(name), state_of(name), cost)
    return at == FOREVER and FOREVER or max(now, rounded(at / SECOND))
  end

  -- Whether all of these limits have room for a job that names them.
  function limits.have_room(costs)
    for _, name in ipairs(costs.names) do
      local at = room_at(limits.limit_of(name), state_of(name), costs.by_name[name])
      if at >= now_micros + 0.5 then return false end
    end
    return true
  end

  -- How many jobs that name these limits might start at most, up to so many.
  function limits.most_starts(costs, most)
    for _, name in ipairs(costs.names) do
      local limit, state = limits.limit_of(name), state_of(name)
      if limit and limit.concurrency then most = min(most, limit.concurrency - state.used) end
      if limit and limit.rate and not limit.burst then
        most = min(most, floor((limit.rate - state.total) / costs.by_name[name]))
      end
    end
    return most
  end

  -- A job starts that names these limits: it holds a permit of each, and is charged.
  function limits.start(costs)
    for _, name in ipairs(costs.names) do
      local state = state_of(name)
      state.used = state.used + 1
      charge(limits.limit_of(name), state, costs.by_name[name])
    end
  end

  -- A job holds its permit of the limit no more; refund what was charged when it started then.
  function limits.finish(name, cost, refund_from)
    local state = state_of(name)
    state.used, state.changed = state.used - 1, true
    if refund_from then refund(limits.limit_of(name), state, cost, micros(refund_from)) end
    forget(state)
  end

  -- Charge what a job has spent besides.
  function limits.spend(name, cost)
    local state = state_of(name)
    charge(limits.limit_of(name), state, cost)
    forget(state)
  end

  -- Nobody starts before then; `at_least` never shortens a pause.
  function limits.pause(name, wanted, at_least)
    local state = state_of(name)
    if at_least and wanted * SECOND <= state.paused_until then return end
    state.paused_until, state.changed = wanted * SECOND, true
    forget(state)
  end

  -- Forget these names, as far as nothing is used of them any more.
  function limits.prune(names)
    for _, name in ipairs(names) do forget(state_of(name)) end
  end

  -- Store a limit: as declared, a newline, as set. What is used of those it covers is counted anew.
  function limits.store(name, text)
    local is_pattern, covered, before = sub(name, -1) == '*', {}, {}
    if not is_pattern then
      covered[1] = call('HEXISTS', p .. 'limit-states', name) == 1 and name or nil
    else
      local prefix = sub(name, 1, -2)
      for _, used in ipairs(call('HKEYS', p .. 'limit-states')) do
        if sub(used, 1, #prefix) == prefix then covered[#covered + 1] = used end
      end
    end
    for _, used in ipairs(covered) do before[used] = limits.limit_of(used) end
    in_force, patterns = {}, nil
    if text == '\n' then
      call('HDEL', p .. 'limits', name)
      if is_pattern then call('SREM', p .. 'limit-patterns', name) end
    else
      call('HSET', p .. 'limits', name, text)
      if is_pattern then call('SADD', p .. 'limit-patterns', name) end
    end
    for _, used in ipairs(covered) do
      if rule.is_recounted(before[used], limits.limit_of(used)) then
        rule.recount(before[used], limits.limit_of(used), state_of(used))
        forget(state_of(used))
      end
    end
  end

  function limits.write()
    local changed = {}
    for name, state in pairs(states) do
      if state.changed then
        write_last(state)
        changed[#changed + 1] = name
        changed[#changed + 1] = format('%.0f %.0f %.17g %.0f', state.used, state.full_at,
          state.paused_until, state.total)
        state.changed, state.is_stored = false, true
      end
    end
    call_many('HSET', p .. 'limit-states', changed)
  end

  the_limits = limits
  return limits
end
