-- +goose Up
-- Entries of a source that were left out, with the first reasons.
ALTER TABLE sync ADD COLUMN malformed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sync ADD COLUMN others INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sync ADD COLUMN left_out TEXT NOT NULL DEFAULT '';

-- The title has a line of the search text when it is empty, too.
UPDATE version SET search = lower(name) || char(10) || substr(search, length(name) + 1)
WHERE length(search) > length(name) AND id IN (
	SELECT version_id FROM document
	WHERE json_valid(CAST(body AS TEXT)) AND coalesce(json_extract(CAST(body AS TEXT), '$.title'), '') = ''
);
