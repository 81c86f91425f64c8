// Package hostile is a server and a client that do wrong on purpose, and what
// tests of them need: issue 4, "Bad input, and what happens".
//
// A server ([Server] for HTTP, [Stdio] for standard input and output) does right
// until a tool is called whose name is one of its [Faults]; then it does that. So
// one server behind one gateway shows all of them, and whoever calls the tool
// "good" meanwhile is a bystander who must not notice. What goes wrong before a
// tool can be called is set by [Server.Step].
//
// A client ([Client]) speaks either era, does right, and hands out what it
// noticed; the wrongs of clients are in the tests.
//
// The older transport's server is [SSE]. The program test/hostile/server is for
// trying a gateway by hand. The tests take some two minutes; `make test` and `make
// hostile` run them.
package hostile
