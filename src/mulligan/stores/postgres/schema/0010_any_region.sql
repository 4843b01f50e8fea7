-- The tables stay as they are: only functions have changed since, and a new version makes them anew.
SELECT;
