// Package corners shows that any client works with any server: the built thv
// between clients that others wrote (the Go, TypeScript and Python SDKs, each in
// both of its majors, and the Inspector), at every protocol version they speak,
// and servers of every kind made with the Go SDK (server), the Python SDK (pyserver)
// and both majors of the TypeScript SDK (tsserver). So it goes through all four corners
// of the two protocol eras.
//
// Every client does the same steps (clients) and prints what it saw, a line of JSON for
// each. First it does so directly, at a server of its own era: the result must be that of
// the function want. Then through thv at every server: every step must give the same
// result as directly, or that of the function want where a maker has no server of the
// client's era. So neither the gateway nor the change of era may be visible. If a client
// itself cannot do a step, the function cannot has the reason; a client that can do it
// after all fails the test. The version of the requests at the server is checked as well,
// and shown by -v.
//
//	go test -tags integration ./test/corners
package corners
