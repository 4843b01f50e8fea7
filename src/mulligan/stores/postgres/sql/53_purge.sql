-- purge(ids): delete jobs that have ended, with their history. Result: for each whether it had.
CREATE FUNCTION purge(ids text[]) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    answers boolean[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        DELETE FROM ended WHERE id = ids[i];
        answers := answers || FOUND;
        IF FOUND THEN
            DELETE FROM attempt WHERE job = ids[i];
        END IF;
    END LOOP;
    RETURN answers;
END
$$;
