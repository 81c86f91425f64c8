// Package corners shows that any client works with any server: the built thv
// between clients that others wrote (the Go, TypeScript and Python SDKs, each in
// both of its majors, and the Inspector), at every protocol version they speak,
// and servers of every kind made with the Go SDK (server), the Python SDK (pyserver)
// and both majors of the TypeScript SDK (tsserver). So it goes through all four corners
// of the two protocol eras.
//
// Every client does the same steps (clients) and prints what it saw, a line of
// JSON for each. First it does so directly, at a server that speaks as it does:
// that must be what the function want says. Then through thv at every server:
// that must be what it saw directly, in every step; or what the function want says,
// where a maker has no server that speaks as the client does. So neither the gateway
// nor the change of era may show. Where a client itself cannot do a step, the
// function cannot says why; a client that can after all fails the test. What
// version the server was asked in is checked beside, and shown by -v.
//
//	go test -tags integration ./test/corners
package corners
