-- The last failed attempt of a job without its traceback, or ''.
local function last_failure(id)
  return match(call('LINDEX', p .. 'history:' .. id, -1) or '', '^[^\n]*')
end
