-- renew_tokens(): give each job whose token is the last number there is, which another program
-- wrote, one above all that it has had, as if its life began now.
CREATE FUNCTION renew_tokens() RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
    UPDATE job SET token = first_token(nextval('counter')) WHERE token = 9223372036854775807
$$;
