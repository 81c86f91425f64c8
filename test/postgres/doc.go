// Package postgres starts a real PostgreSQL server for tests, which
// test/setup/postgres.sh installs. It listens on the loopback address only, keeps
// everything in a temporary directory, and ends with the test, also when the
// test's process is killed.
//
//	server := postgres.Start(t)
//	url := server.Database(t) // a new database of its own
//
// Outages: [Server.Stop] for a server that was shut down,
// [Server.Kill] for one that crashed, [Server.Restart] for its return, on the
// same port with the same data.
//
// PostgreSQL does not run as root: where the tests do, it runs as Debian's user
// postgres.
package postgres
