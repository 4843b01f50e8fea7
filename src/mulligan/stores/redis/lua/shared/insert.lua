-- Putting a job into a lane by its due time.
-- include: lanes, wakeup

local seen_lanes = {}

local function note_lane(lane)
  if not seen_lanes[lane] then
    call('SADD', p .. 'lanes', lane)
    seen_lanes[lane] = true
  end
end

-- Make the job claimable where its due time and sequence put it.
local function insert_by_due(member, lane, due)
  note_lane(lane)
  call('ZADD', sorted_key(lane), due, member)
  wake_for(lane, due)
end
