-- The jobs of lines, for the book: see line_book.lua.
-- include: insert, many, members, sequences, times

local function keep_jobs(book, lane_of)
  local job_texts = {}

  local function jobs_key(line)
    return p .. 'line:' .. line.lane .. ':' .. line.tag
  end

  -- What has joined the line in this script and is yet to be written.
  local function write_joined(line)
    if line.joined[1] then
      call_many('ZADD', jobs_key(line), line.joined)
      line.joined, line.has_set = {}, true
    end
  end

  -- What was taken from the head of the line and is yet to be removed; it is read anew from now on.
  function book.write_popped(line)
    local reader = line.reader
    if not reader then return end
    local popped = reader.from + (reader.at - 1) / 2
    line.reader = nil
    if popped > 0 and line.only then
      line.only = nil
    elseif popped > 0 then
      call('ZREMRANGEBYRANK', jobs_key(line), 0, popped - 1)
    end
  end

  -- The job stands in the line. The sign before its id: `=` if it has no more in its state than its
  -- key and the limits of the line, `:` if that must be looked at.
  function book.add(line, id, due, sequence, limits_text, is_plain)
    local known = lane_of(line.lane)
    local sign = is_plain and limits_text == line.base and '=' or ':'
    local score = due == now and stamp or number_text(due)
    local member, joined, all = sequence_text(sequence) .. sign .. id, line.joined, #known.joined
    known.joined[all + 1], known.joined[all + 2] = score, member
    if line.reader then book.write_popped(line) end
    if line.only then
      joined[1], joined[2] = number_text(line.due), line.only
      line.only, known.changed[line.tag] = nil, true
    elseif not line.has_set and not joined[1] then
      line.only = member
      return
    end
    joined[#joined + 1] = score
    joined[#joined + 1] = member
  end

  local function write_all_joined(known)
    if known.joined[1] then
      note_lane(known.name)
      call_many('ZADD', p .. 'lined:' .. known.name, known.joined)
      known.joined = {}
    end
  end

  -- The job stands in the line no more.
  function book.remove(line, id, sequence)
    book.write_popped(line)
    write_joined(line)
    write_all_joined(lane_of(line.lane))
    local text = sequence_text(sequence)
    if not line.only then
      call('ZREM', jobs_key(line), text .. '=' .. id, text .. ':' .. id)
    elseif sub(line.only, 1, 16) == text then
      line.only = nil
    end
    call('ZREM', p .. 'lined:' .. line.lane, text .. '=' .. id, text .. ':' .. id)
  end

  -- The first jobs of a line are read in runs, each longer than the one before, and those that are
  -- taken are removed when the script ends.
  local function reader_of(line)
    local reader = line.reader
    if not reader then
      write_joined(line)
      reader = { at = 1, from = 0, size = 2, jobs = {}, over = not line.has_set }
      if line.only then reader.jobs = { line.only, line.due } end
      line.reader = reader
    end
    if reader.at > #reader.jobs and not reader.over then
      reader.from, reader.at = reader.from + #reader.jobs / 2, 1
      reader.jobs = call('ZRANGE', jobs_key(line), reader.from, reader.from + reader.size - 1,
        'WITHSCORES')
      reader.over = #reader.jobs < 2 * reader.size
      reader.size = math.min(4 * reader.size, CHUNK)
    end
    return reader
  end

  -- The first job of a line: its member and its due time; nil if it has none.
  function book.first_job(line)
    local reader = reader_of(line)
    return reader.jobs[reader.at], tonumber(reader.jobs[reader.at + 1])
  end

  -- The first jobs of a line, up to so many: members and due times from an index of a list on.
  function book.first_jobs(line, count)
    local reader = reader_of(line)
    if (#reader.jobs - reader.at + 1) / 2 < count and not reader.over then
      reader.from, reader.at = reader.from + (reader.at - 1) / 2, 1
      reader.jobs = call('ZRANGE', jobs_key(line), reader.from, reader.from + count - 1,
        'WITHSCORES')
      reader.over = #reader.jobs < 2 * count
    end
    return reader.jobs, reader.at
  end

  -- Take the first jobs out of the line, so many that were read.
  function book.pop(line, count)
    local reader, taken = reader_of(line), lane_of(line.lane).taken
    for _ = 1, count do
      taken[#taken + 1] = reader.jobs[reader.at]
      reader.at = reader.at + 2
    end
  end

  -- Due time, sequence and limits of the first job of a line; nil if it has none.
  function book.first_of(line)
    local member, due = book.first_job(line)
    if not member then return nil end
    local limits_text = line.base
    if sub(member, 17, 17) ~= '=' then
      limits_text = call('HGET', p .. 'state:' .. id_of(member), 'limits') or ''
    end
    return due, sequence_of(member), limits_text
  end

  -- The text of a job of a line.
  function book.text_of(id)
    return job_texts[id] or call('HGET', p .. 'jobs', id)
  end

  -- Texts that were read ahead.
  function book.keep_texts(ids, texts)
    for at, id in ipairs(ids) do job_texts[id] = texts[at] end
  end

  -- Write what was put off of the jobs of a lane.
  function book.write_jobs(known)
    for _, line in pairs(known.lines) do
      if line then
        book.write_popped(line)
        write_joined(line)
      end
    end
    write_all_joined(known)
    call_many('ZREM', p .. 'lined:' .. known.name, known.taken)
  end
end
