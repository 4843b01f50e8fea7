-- Leaving a lane otherwise than by a claim.
-- include: lanes, lines, sequences

-- Take a pending job out of its lane, or out of a line of it if it has a fairness key or names
-- limits. One in a list is only noted as gone: taking it out would mean a search through the list,
-- and claims pass over it.
local function leave_lane(id, lane, sequence, key, limits)
  if key or limits then
    lines().leave(id, lane, sequence, key or '', limits or '')
  elseif call('ZREM', sorted_key(lane), member_of(sequence, id)) == 0 and has_list(lane) then
    local gone = p .. 'gone:' .. lane
    call('ZADD', gone, sequence, sequence_text(sequence))
    if call('ZCARD', gone) == call('LLEN', p .. lane) then call('UNLINK', gone, p .. lane) end
  end
end
