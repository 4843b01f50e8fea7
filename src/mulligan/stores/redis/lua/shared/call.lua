-- How scripts call the server.

local call = redis.call
