-- +goose Up
-- Times are microseconds since 1970, UTC.

CREATE TABLE source (
	id       INTEGER PRIMARY KEY,
	name     TEXT NOT NULL UNIQUE,
	epoch    TEXT NOT NULL,
	revision INTEGER NOT NULL
) STRICT;

CREATE TABLE version (
	id                INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
	source_id         INTEGER NOT NULL REFERENCES source (id),
	name              TEXT NOT NULL,
	version           TEXT NOT NULL,
	status            TEXT NOT NULL,
	status_message    TEXT NOT NULL,
	published_at      INTEGER NOT NULL,
	updated_at        INTEGER NOT NULL,
	status_changed_at INTEGER NOT NULL,
	search            TEXT NOT NULL,
	digest            BLOB NOT NULL, -- SHA-256 of the document
	revision          INTEGER NOT NULL, -- of the source, when this changed last
	UNIQUE (source_id, name, version)
) STRICT;

CREATE INDEX version_revision ON version (source_id, revision);

-- Apart, so that reading heads does not read documents.
CREATE TABLE document (
	version_id INTEGER PRIMARY KEY REFERENCES version (id),
	body       BLOB NOT NULL
) STRICT;

CREATE TABLE lease (
	source  TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	expires INTEGER NOT NULL
) STRICT;

CREATE TABLE sync (
	source       TEXT PRIMARY KEY,
	phase        TEXT NOT NULL,
	last_attempt INTEGER NOT NULL,
	last_success INTEGER NOT NULL,
	failures     INTEGER NOT NULL,
	error        TEXT NOT NULL,
	servers      INTEGER NOT NULL,
	versions     INTEGER NOT NULL,
	digest       TEXT NOT NULL
) STRICT;

CREATE TABLE secret (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
) STRICT;
