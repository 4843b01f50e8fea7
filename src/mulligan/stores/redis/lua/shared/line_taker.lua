-- Taking from lanes of which jobs stand in lines, during a claim.
-- include: lane_reader, lines

wakes_put_off = {}
-- Of a job that has nothing in its state but its key and its limits.
local PLAIN_IN_LINE = {}
local HAS_SEQUENCE = '^' .. string.rep('%d', 16) .. '\t'

-- Bring the lines of these lanes up to the present. A lane is mixed if a line of it is ready or has
-- a key: then its jobs take turns. In others lines only wait, and no claim makes one ready.
local function open_lines(readers, demand)
  turns_piece = math.min(demand + 1, 128)
  for _, reader in pairs(readers) do
    if reader.lined then
      lines().advance(reader.lane)
      reader.is_mixed = lines().take_turns(reader.lane)
    end
  end
end

-- Due time and sequence of the first job that stands in the lane itself, if it is due.
local function own_due(reader)
  local due, member = own_head(reader)
  if due and due <= now then return due, sequence_of(member) end
end

-- Due time and member of the job that is next in the lane, due or not; of what comes later, its time
-- and a sequence before all others. Notes the line that is next: none if no line is ready, or the lane
-- itself is next.
local function head(reader)
  if not reader.lined then return own_head(reader) end
  reader.is_mixed = lines().take_turns(reader.lane)
  local line = reader.is_mixed and lines().next_line(reader.lane, own_due(reader)) or nil
  reader.line = line
  if line then return line.due, sequence_text(line.sequence) end
  local due, member = own_head(reader)
  local at = lines().next_at(reader.lane)
  if at == math.huge or (due and due < at) then return due, member end
  return at, sequence_text(0)
end

-- Id, text, state and member of the first job of a line, which stays there.
local function read_first(line)
  local member = line_book().first_job(line)
  local id = id_of(member)
  local state = sub(member, 17, 17) == '=' and PLAIN_IN_LINE or read_state(id)
  return id, line_book().text_of(id), state, member
end

-- The first jobs of the line that is next in the lane, up to so many, that may start one after the
-- other and have nothing but their key and their limits, which are charged: their ids and texts.
local function read_run(reader, line, most)
  local ids, costs = {}, named_limits().costs_of(line.base)
  most = named_limits().most_starts(costs, most)
  local bound = most > 1 and lines().run_bound(line, own_due(reader))
  if not bound then return ids end
  local jobs, first = line_book().first_jobs(line, most)
  for at = first, math.min(first + 2 * most, #jobs) - 1, 2 do
    local member, due = jobs[at], tonumber(jobs[at + 1])
    local order = line_book().order_of(due, sequence_of(member))
    if sub(member, 17, 17) ~= '=' or due > now or order >= bound then break end
    ids[#ids + 1] = id_of(member)
  end
  local texts, count = read_many(p .. 'jobs', ids, 1, #ids), 0
  for at, text in ipairs(texts) do
    if not text or not find(text, HAS_SEQUENCE) or not named_limits().have_room(costs) then break end
    named_limits().start(costs)
    count = at
  end
  for at = #ids, count + 1, -1 do ids[at] = nil end
  return ids, texts
end
