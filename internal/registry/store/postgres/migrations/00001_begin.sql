-- +goose Up
-- Times are microseconds since 1970, UTC. Keys compare byte by byte: COLLATE "C".

CREATE TABLE source (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name     text COLLATE "C" NOT NULL UNIQUE,
	epoch    text NOT NULL,
	revision bigint NOT NULL
);

CREATE TABLE version (
	id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used again
	source_id         bigint NOT NULL REFERENCES source (id),
	name              text COLLATE "C" NOT NULL,
	version           text COLLATE "C" NOT NULL,
	status            text NOT NULL,
	status_message    text NOT NULL,
	published_at      bigint NOT NULL,
	updated_at        bigint NOT NULL,
	status_changed_at bigint NOT NULL,
	search            text NOT NULL,
	digest            bytea NOT NULL, -- SHA-256 of the document
	revision          bigint NOT NULL, -- of the source, when this changed last
	UNIQUE (source_id, name, version)
);

CREATE INDEX version_revision ON version (source_id, revision);

-- Apart, so that reading heads does not read documents. Bytes, not text: a
-- document comes back as it was published.
CREATE TABLE document (
	version_id bigint PRIMARY KEY REFERENCES version (id),
	body       bytea NOT NULL
);

CREATE TABLE lease (
	source  text COLLATE "C" PRIMARY KEY,
	owner   text NOT NULL,
	expires bigint NOT NULL
);

CREATE TABLE sync (
	source       text COLLATE "C" PRIMARY KEY,
	phase        text NOT NULL,
	last_attempt bigint NOT NULL,
	last_success bigint NOT NULL,
	failures     bigint NOT NULL,
	error        text NOT NULL,
	servers      bigint NOT NULL,
	versions     bigint NOT NULL,
	digest       text NOT NULL
);

CREATE TABLE secret (
	name  text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);
