-- Leaving a lane otherwise than by a claim.
-- include: lanes, members

-- Take a pending job out of its lane. One in a list is only noted as gone: taking it out would mean
-- a search through the list, and claims pass over it.
local function leave_lane(member, lane)
  if call('ZREM', sorted_key(lane), member) == 0 and has_list(lane) then
    local gone = p .. 'gone:' .. lane
    call('ZADD', gone, sequence_of(member), sub(member, 1, 16))
    if call('ZCARD', gone) == call('LLEN', p .. lane) then call('UNLINK', gone, p .. lane) end
  end
end
