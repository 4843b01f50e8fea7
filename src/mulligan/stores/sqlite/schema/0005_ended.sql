-- What has ended runs no more, and others may have its unique key.

CREATE TRIGGER ended_insert AFTER INSERT ON ended
BEGIN
    DELETE FROM running WHERE place = NEW.place;
    UPDATE job SET key_queue = NULL WHERE place = NEW.place AND key_queue IS NOT NULL;
END;
