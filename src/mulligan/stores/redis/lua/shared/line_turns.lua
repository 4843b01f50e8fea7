-- Fairness keys and their turns, for the book: see line_book.lua; core/lines.py is the oracle.
-- include: many, members, ordered

local function keep_turns(book, lane_of)
  local NO_KEY, TURN, TAB, byte = '', 1000000, 9, string.byte

  local function turns_of(lane)
    local known = lane_of(lane)
    if not known.present then
      local keyed, present = match(call('HGET', p .. 'fair', lane) or '0 0', '^(%d+) (%d+)$')
      known.keyed, known.present = tonumber(keyed), tonumber(present)
    end
    return known
  end

  -- So many more lines of the lane have a fairness key; gives how many have.
  function book.count_keyed(lane, by)
    local known = turns_of(lane)
    known.keyed, known.turns_changed = known.keyed + by, true
    return known.keyed
  end

  -- Whether a line of the lane has a fairness key.
  function book.is_fair(lane)
    return turns_of(lane).keyed > 0
  end

  -- The highest turn in which a job has started, since the lane became fair.
  function book.present_turn(lane)
    return turns_of(lane).present
  end

  -- The `ready` of a key whose first ready line is this one.
  function book.ready_of(line)
    return line and book.member_for(line) or false
  end

  -- Keep the key as it is now.
  function book.put_key(key)
    local known = lane_of(key.lane)
    if key.put_ready ~= key.ready or key.put_turn ~= key.turn then
      known.first_key = nil
      if key.put_ready then
        remove_from(known.turns, key.put_ready)
        known.more_keys = known.more_keys - 1
      end
      if key.ready then
        add_to(known.turns, key.ready, key.turn)
        known.more_keys = known.more_keys + 1
      end
      known.changed[key.name .. '\t'] = true
      key.put_turn, key.put_ready = key.turn, key.ready
    end
  end

  -- The key has these ready lines now; it takes part in turns with the first.
  local function note_put(key, ready, count)
    key.ready, key.ready_count = ready, count
    key.put_turn, key.put_ready = key.turn, ready
  end

  -- Of these keys, as a table by name, those of which nothing is kept.
  function book.unknown_keys(lane, names)
    local known, unknown = turns_of(lane), {}
    local texts = known.keyed > 0 and read_many(p .. 'keys:' .. lane, names, 1, #names) or {}
    for at, name in ipairs(names) do
      if not texts[at] and not known.keys[name] then unknown[name] = true end
    end
    return unknown
  end

  -- Lines without limits begin, each with one job that is due now: the first ready ones of keys of which
  -- nothing was kept. They are written at once.
  function book.begin_lines(lane, names, firsts)
    if not names[1] then return end
    local known, due, turns, records = turns_of(lane), book.due_text(now), {}, {}
    local turn, joined, all = format('%.0f', known.present), known.joined, #known.joined
    local heading = turn .. '\t1\tready\t' .. due .. '\t\t'
    for number, name in ipairs(names) do
      local first, at = firsts[number], 2 * number
      joined[all + at - 1], joined[all + at] = stamp, first
      records[at - 1], records[at] = name, heading .. first .. '\t='
      turns[at - 1], turns[at] = turn, due .. ' ' .. sub(first, 1, 16) .. '\t' .. name .. '\t'
    end
    call_many('HSET', p .. 'keys:' .. lane, records)
    call_many('ZADD', p .. 'turns:' .. lane, turns)
    known.keyed, known.turns_changed = known.keyed + #names, true
  end

  -- Start the first job of the key whose turn is next, if it has nothing but a key, no other line of
  -- its key is ready, and the job behind it is due, if there is one: gives its id and text. The same
  -- as to look at its limits, to pop it, and to go on. `step_of` says how far apart turns are.
  function book.start_plain(lane, step_of)
    local known = turns_of(lane)
    local member, turn = first_in(known.turns)
    local line = member and known.lines[book.tag_in(member)]
    local key = line and known.keys[line.key]
    if not key or line.limits ~= '' or key.ready_count ~= 1 then return nil end
    local first, tag, id = line.first, line.tag, sub(line.first, 18)
    local text = book.text_of(id)
    if sub(first, 17, 17) ~= '=' or not text or byte(text, 17) ~= TAB then return nil end
    local second, due
    if line.has_set then
      second, due = book.second_job(line)
      if second and due > now then return nil end
      book.pop(line, 1)
    else
      known.taken[#known.taken + 1] = first
    end

    if turn < known.present then turn = known.present end
    key.turn = turn + (step_of(lane, key.name) or TURN)
    known.present, known.turns_changed, known.first_key = turn, true, nil
    known.changed[tag] = true
    remove_from(known.turns, member)
    if second then
      book.set_first(line, due, sequence_of(second), second, '')
      note_put(key, book.member_for(line), 1)
      add_to(known.turns, key.ready, key.turn)
      book.wake(lane, due)
    else
      book.write_popped(line)
      note_put(key, false, 0)
      known.lines[tag], known.first_ready[key.name] = false, false
      known.keyed, known.more_keys = known.keyed - 1, known.more_keys - 1
      if known.keyed == 0 then book.end_turns(lane) end
    end
    return id, text
  end

  -- Those who take turns are read in pieces: read their lines and first jobs at once too.
  function book.read_ahead(known, members)
    local tags, ids = {}, {}
    for at = 1, #members, 2 do tags[#tags + 1] = book.tag_in(members[at]) end
    book.read_lines(known.name, tags)
    for _, tag in ipairs(tags) do
      local line = known.lines[tag]
      if line then ids[#ids + 1] = id_of(line.first) end
    end
    book.keep_texts(ids, read_many(p .. 'jobs', ids, 1, #ids))
  end

  -- Of the keys with a ready line the one with the lowest (turn, due, sequence).
  function book.first_key(lane)
    local known = lane_of(lane)
    if known.first_key == nil then
      local first = first_in(known.turns)
      known.first_key = first and book.key(lane, book.line(lane, book.tag_in(first)).key) or false
    end
    return known.first_key
  end

  -- Whether other keys than the first have ready lines.
  function book.has_other_keys(lane)
    local known = lane_of(lane)
    known.key_count = known.key_count or call('ZCARD', known.turns.key)
    return known.key_count + known.more_keys > 1
  end

  -- The lane's present turn is this one, if it is not past it already.
  function book.pass_to(lane, turn)
    local known = turns_of(lane)
    if turn > known.present then known.present, known.turns_changed = turn, true end
  end

  -- No line of the lane has a key: all turns begin anew.
  function book.end_turns(lane)
    local known, key = turns_of(lane), book.key(lane, NO_KEY)
    call('DEL', p .. 'turns:' .. lane, p .. 'keys:' .. lane, p .. 'idle:' .. lane)
    known.present, known.turns_changed, known.key_count, known.more_keys = 0, true, 0, 0
    known.turns, known.first_key = ordered(known.turns.key, true), nil
    known.keys = { [NO_KEY] = key }
    key.turn, key.put_turn, key.put_ready, key.is_idle = 0, 0, false, false
    book.put_key(key)
  end

  local function write_present(known)
    if known.keyed == 0 then
      call('HDEL', p .. 'fair', known.name)
    else
      call('HSET', p .. 'fair', known.name, format('%.0f %.0f', known.keyed, known.present))
    end
    local idle = p .. 'idle:' .. known.name
    local past = call('ZRANGEBYSCORE', idle, '-inf', format('%.0f', known.present))
    call_many('HDEL', p .. 'keys:' .. known.name, past)
    call_many('ZREM', idle, past)
  end

  -- Write what was put off of the turns of a lane.
  function book.write_turns(known)
    write_ordered(known.turns)
    if known.turns_changed then write_present(known) end
  end
end
