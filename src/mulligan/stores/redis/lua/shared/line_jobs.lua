-- The jobs of lines, for the book: see line_book.lua; core/lines.py is the oracle.
-- include: insert, many, members, sequences, times

local function keep_jobs(book, lane_of)
  local job_texts = {}

  local function jobs_key(line)
    return p .. 'line:' .. line.lane .. ':' .. line.tag
  end

  -- What has joined the line in this script and is yet to be written.
  local function write_joined(line)
    if line.joined then
      call_many('ZADD', jobs_key(line), line.joined)
      line.joined, line.has_set = nil, true
    end
  end

  -- What was taken from the head of the line and is yet to be removed; it is read anew from now on.
  -- An only job that is left needs no set.
  function book.write_popped(line)
    local reader = line.reader
    if not reader then return end
    local popped, left = reader.from + (reader.at - 1) / 2, (#reader.jobs - reader.at + 1) / 2
    line.reader = nil
    if popped > 0 and reader.over and left <= 1 then
      call('DEL', jobs_key(line))
      line.has_set, lane_of(line.lane).changed[line.tag] = false, true
    elseif popped > 0 then
      call('ZREMRANGEBYRANK', jobs_key(line), 0, popped - 1)
    end
  end

  -- The job stands in the line; gives its member there. The sign before its id: `=` if it has no more
  -- in its state than its key and the limits of the line, `:` if that must be looked at.
  function book.add(line, id, due, sequence, limits_text, is_plain)
    local known = lane_of(line.lane)
    local sign = is_plain and limits_text == line.base and '=' or ':'
    local score = due == now and stamp or number_text(due)
    local member, all = sequence_text(sequence) .. sign .. id, #known.joined
    known.joined[all + 1], known.joined[all + 2] = score, member
    if not line.first then return member end
    book.write_popped(line)
    if not line.has_set and not line.joined then
      line.joined, known.changed[line.tag] = { number_text(line.due), line.first }, true
    end
    local joined = line.joined or {}
    joined[#joined + 1] = score
    joined[#joined + 1] = member
    line.joined = joined
    return member
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
    if line.has_set then call('ZREM', jobs_key(line), text .. '=' .. id, text .. ':' .. id) end
    if line.sequence == sequence then book.unset_first(line) end
    call('ZREM', p .. 'lined:' .. line.lane, text .. '=' .. id, text .. ':' .. id)
  end

  -- The first jobs of a line that has several are read in runs, each longer than the one before, and
  -- those that are taken are removed when the script ends.
  local function reader_of(line)
    write_joined(line)
    if not line.has_set then return nil end
    local reader = line.reader
    if not reader then
      reader = { at = 1, from = 0, size = 3, jobs = {} }
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
    if line.first then return line.first, line.due end
    local reader = reader_of(line)
    if reader then return reader.jobs[reader.at], tonumber(reader.jobs[reader.at + 1]) end
  end

  -- The first jobs of a line, up to so many: members and due times from an index of a list on.
  function book.first_jobs(line, count)
    local reader = reader_of(line)
    if not reader then return { line.first, line.due }, 1 end
    if (#reader.jobs - reader.at + 1) / 2 < count and not reader.over then
      reader.from, reader.at = reader.from + (reader.at - 1) / 2, 1
      reader.jobs = call('ZRANGE', jobs_key(line), reader.from, reader.from + count - 1,
        'WITHSCORES')
      reader.over = #reader.jobs < 2 * count
    end
    return reader.jobs, reader.at
  end

  -- The job behind the first one, and its due time; nil if there is none.
  function book.second_job(line)
    local jobs, first = book.first_jobs(line, 2)
    return jobs[first + 2], tonumber(jobs[first + 3])
  end

  -- Take the first jobs out of the line, so many that were read.
  function book.pop(line, count)
    local reader, taken = reader_of(line), lane_of(line.lane).taken
    if reader then
      for _ = 1, count do
        taken[#taken + 1] = reader.jobs[reader.at]
        reader.at = reader.at + 2
      end
    else
      taken[#taken + 1] = line.first
    end
    book.unset_first(line)
  end

  -- Due time, member and limits of the first job of a line; nil if it has none.
  function book.first_of(line)
    local member, due = book.first_job(line)
    if not member then return nil end
    local limits_text = line.base
    if sub(member, 17, 17) ~= '=' then
      limits_text = call('HGET', p .. 'state:' .. id_of(member), 'limits') or ''
    end
    return due, member, limits_text
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
