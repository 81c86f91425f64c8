package main

import (
	"path/filepath"
	"strings"
)

// The revisions that the suite supports.
const (
	session   = "2025-11-25" // the last one with sessions
	stateless = "2026-07-28"
)

// backend is an MCP server on a third-party library.
type backend struct {
	name string
	what string // the server's description in the document
	// argv starts the server on the host; %NODE, %CACHE and %PORT are replaced.
	// Without it the server is an image, which only a gateway can start.
	argv  []string
	env   []string
	path  string   // of the endpoint
	image string   // run the server in a container of it, on standard input and output
	run   []string // flags of `thv run`; %CACHE is replaced
	// clientSuite marks the servers of the suite's scenarios for clients. The suite
	// starts one for each scenario. oauth chooses those about OAuth instead of the others.
	clientSuite, oauth bool
}

func backends() map[string]backend {
	all := map[string]backend{}
	for _, b := range []backend{
		{
			name: "go-stateful", what: "go-sdk everything-server, streamable HTTP with sessions",
			argv: []string{"%CACHE/everything-server", "-http", "127.0.0.1:%PORT", "-stateless=false"}, path: "/",
		},
		{
			name: "go-stateless", what: "go-sdk everything-server, stateless HTTP",
			argv: []string{"%CACHE/everything-server", "-http", "127.0.0.1:%PORT", "-stateless=true"}, path: "/",
		},
		{
			name: "go-sse", what: "go-sdk everything-server, HTTP+SSE of 2024-11-05",
			argv: []string{"%CACHE/everything-server", "-sse", "127.0.0.1:%PORT"}, path: "/",
			run: []string{"--transport", "sse"},
		},
		{
			name: "go-stdio", what: "go-sdk everything-server, stdio, both eras, in a container",
			image: goImage, run: []string{"--transport", "stdio"},
		},
		{
			name: "go-legacy-stdio", what: "go-sdk everything-server, stdio, session era only, in a container",
			image: goImage, run: []string{"--transport", "stdio", "--", "-legacy"},
		},
		{
			name: "npm-everything", what: "npm server-everything, streamable HTTP with sessions",
			argv: []string{"%NODE", "%CACHE/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"},
			env:  []string{"PORT=%PORT"}, path: "/mcp",
		},
		{
			name: "ts-everything", what: "TypeScript SDK 2 everything server, streamable HTTP, both eras",
			argv: []string{"%NODE", "%CACHE/servers/typescript.mjs", "%PORT", "both"}, path: "/mcp",
		},
		{
			name: "ts-stateful", what: "TypeScript SDK 2 everything server, streamable HTTP with sessions",
			argv: []string{"%NODE", "%CACHE/servers/typescript.mjs", "%PORT", "session"}, path: "/mcp",
		},
		{
			name: "ts-stateless", what: "TypeScript SDK 2 everything server, stateless HTTP",
			argv: []string{"%NODE", "%CACHE/servers/typescript.mjs", "%PORT", "stateless"}, path: "/mcp",
		},
		{
			name: "ts-stdio", what: "TypeScript SDK 2 everything server, stdio, both eras, in a container",
			image: nodeImage, run: []string{
				"--transport", "stdio", "-v", "%CACHE:/cache:ro", "--",
				"node", "/cache/servers/typescript.mjs", "stdio", "both",
			},
		},
		{
			name: "client-suite", what: "the client suite's scenario servers, with go-sdk everything-client as the client",
			clientSuite: true,
		},
		{
			name: "client-oauth", what: "the client suite's OAuth scenarios, `thv run` and `thv login` as the OAuth client",
			clientSuite: true, oauth: true,
		},
	} {
		all[b.name] = b
	}
	return all
}

// cell is one measurement.
type cell struct {
	harness string // the revision that the suite speaks
	backend backend
	gateway bool
	stages  bool // of the gateway; the result must be the same
}

func (c cell) name() string {
	way := "direct"
	if c.gateway {
		way = "gateway"
	}
	return c.harness + "/" + c.backend.name + "/" + way
}

func (c cell) file() string { return strings.ReplaceAll(c.name(), "/", "_") }

func (c cell) expectedFile() string {
	return filepath.Join("test", "conformance", "expected", c.file()+".yaml")
}

// cells returns every measurement, in the order of the document.
func cells() []cell {
	b := backends()
	return []cell{
		// The references that the other cells are compared with.
		{harness: session, backend: b["go-stateful"]},
		{harness: stateless, backend: b["go-stateless"]},
		{harness: session, backend: b["npm-everything"]},
		{harness: session, backend: b["ts-everything"]},
		{harness: stateless, backend: b["ts-everything"]},
		{harness: session, backend: b["client-suite"]},
		{harness: stateless, backend: b["client-suite"]},

		// The same era on both sides.
		{harness: session, backend: b["go-stateful"], gateway: true},
		{harness: session, backend: b["go-stdio"], gateway: true},
		{harness: session, backend: b["go-legacy-stdio"], gateway: true},
		{harness: session, backend: b["go-sse"], gateway: true},
		{harness: session, backend: b["npm-everything"], gateway: true},
		{harness: session, backend: b["ts-everything"], gateway: true, stages: true},
		{harness: session, backend: b["ts-stdio"], gateway: true},
		{harness: stateless, backend: b["go-stateless"], gateway: true},
		{harness: stateless, backend: b["go-stdio"], gateway: true},
		{harness: stateless, backend: b["ts-everything"], gateway: true, stages: true},
		{harness: stateless, backend: b["ts-stdio"], gateway: true},
		{harness: session, backend: b["client-suite"], gateway: true},
		{harness: stateless, backend: b["client-suite"], gateway: true},
		{harness: session, backend: b["client-oauth"], gateway: true},
		{harness: stateless, backend: b["client-oauth"], gateway: true},

		// One era on each side: only a gateway makes these work.
		{harness: stateless, backend: b["go-stateful"], gateway: true},
		{harness: stateless, backend: b["go-legacy-stdio"], gateway: true},
		{harness: stateless, backend: b["go-sse"], gateway: true},
		{harness: stateless, backend: b["npm-everything"], gateway: true},
		{harness: stateless, backend: b["ts-stateful"], gateway: true},
		{harness: session, backend: b["go-stateless"], gateway: true},
		{harness: session, backend: b["ts-stateless"], gateway: true},
	}
}
