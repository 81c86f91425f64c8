-- +goose Up
-- Entries of a source that were left out, with the first reasons.
ALTER TABLE sync ADD COLUMN malformed bigint NOT NULL DEFAULT 0;
ALTER TABLE sync ADD COLUMN others bigint NOT NULL DEFAULT 0;
ALTER TABLE sync ADD COLUMN left_out text NOT NULL DEFAULT '';

-- The title has a line of the search text when it is empty, too.
UPDATE version SET search = lower(name) || chr(10) || substr(search, length(name) + 1)
WHERE length(search) > length(name) AND id IN (
	SELECT version_id FROM document
	WHERE coalesce(convert_from(body, 'UTF8')::json ->> 'title', '') = ''
);
