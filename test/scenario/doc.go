// Package scenario runs the built thv the way a user does, against a real
// container engine, real package registries and third-party clients. Most of it
// is scripts: testdata/*.txtar, one for each thing a user relies on, in the
// form of [testscript]. What needs many clients at once or an engine of its own
// is Go.
//
// Every script has state, configuration and runtime directories of its own, and
// when it ends nothing of it may be left: no process, no container. That is
// checked after each script. Three scripts run at a time (names_test.go).
//
// The commands that scripts have beside testscript's own are in commands_test.go.
//
//	go test -tags integration ./test/scenario                  # all
//	go test -tags integration ./test/scenario -run Scripts/url # one
//
// [testscript]: https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript
package scenario
