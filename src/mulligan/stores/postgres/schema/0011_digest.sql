-- Which functions were made last: a digest of their text, in the row of the newest version. They are
-- made anew where it is another, also within one version.
ALTER TABLE migration ADD COLUMN functions text;
