-- What a script does when the server's memory is full.
-- include: base

-- Redis refuses a script's first write when memory is full if that write could need more. What
-- finishes or frees work begins with a write that needs none, and so is let through.
local function go_on_when_full()
  call('DEL', p .. 'none')
end

-- What adds work begins with a write that a full memory refuses, before anything is changed.
local function stop_when_full()
  call('SETNX', p .. 'sequence', 0)
end
