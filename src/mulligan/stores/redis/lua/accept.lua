-- Accept or refuse entries of the inbox. One that another process has dealt with meanwhile is
-- left alone.
-- KEYS[1]  prefix
-- ARGV     now, number of lanes, number of refusals to keep, the lanes, and for each entry: its
--          text, the refusal to note or '', and if there is none the job as shared/adding.lua
--          reads it
-- Result   how many were accepted
-- include: adding

stop_when_full()
local at, accepted = read_lanes(4, tonumber(ARGV[2])), 0
while at <= #ARGV do
  local refusal = ARGV[at + 1]
  if call('LREM', p .. 'inbox:taken', 1, ARGV[at]) == 1 then
    if refusal ~= '' then
      call('RPUSH', p .. 'inbox:refused', refusal)
      call('LTRIM', p .. 'inbox:refused', -tonumber(ARGV[3]), -1)
    else
      add(at + 2)
      accepted = accepted + 1
    end
  end
  at = at + (2 + (refusal ~= '' and 0 or JOB_WIDTH))
end
finish_adding()
return accepted
