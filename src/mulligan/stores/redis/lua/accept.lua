-- Accept or refuse entries of the inbox. One that another process has dealt with meanwhile is
-- left alone.
-- KEYS[1]  prefix
-- ARGV     now, number of refusals to keep, and for each entry: its text, the refusal to note or
--          '', and if there is none the job as shared/add.lua reads it, a run of one
-- Result   how many were accepted
-- include: base, many, times, memory
-- include: add

stop_when_full()
local ONE_JOB = RUN_WIDTH + JOB_WIDTH
local at, accepted = 3, 0
while at <= #ARGV do
  local refusal = ARGV[at + 1]
  if call('LREM', p .. 'inbox:taken', 1, ARGV[at]) == 1 then
    if refusal ~= '' then
      call('RPUSH', p .. 'inbox:refused', refusal)
      call('LTRIM', p .. 'inbox:refused', -tonumber(ARGV[2]), -1)
    else
      add_runs(at + 2, at + 1 + ONE_JOB, function() end, false)
      accepted = accepted + 1
    end
  end
  at = at + 2 + (refusal ~= '' and 0 or ONE_JOB)
end
finish_add()
return accepted
