-- +goose Up
-- The time of the last change of any source. Whoever changes something moves it
-- on, and holds it until that is committed; so times are in the order of commits.
CREATE TABLE clock (last INTEGER NOT NULL) STRICT;

INSERT INTO clock (last) SELECT coalesce(max(updated_at), 0) FROM version;

-- When the source changed last: the zero time for one that never did.
ALTER TABLE source ADD COLUMN updated_at INTEGER NOT NULL DEFAULT -62135596800000000;

UPDATE source SET updated_at = coalesce((SELECT max(v.updated_at) FROM version v WHERE v.source_id = source.id), updated_at);
