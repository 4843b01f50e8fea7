-- The tables stay as they are: claims and commits find their jobs in another way.
SELECT;
