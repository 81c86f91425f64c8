//go:build integration

package corners

import (
	"path/filepath"
	"strings"
)

// client is a third-party client at one protocol version. A URL, a transport (streamable
// or sse), a version and a key are appended to argv.
type client struct {
	name      string
	argv      []string
	transport string
	version   string // the one it ends up with
}

// statelessVersion is the first version without sessions.
const statelessVersion = "2026-07-28"

func clients() []client {
	var all []client
	add := func(name string, argv []string, transport string, versions ...string) {
		for _, v := range versions {
			c := client{name: name + ", " + v, argv: argv, transport: transport, version: v}
			if transport == "sse" {
				c.name = name + " over SSE, " + v
			}
			all = append(all, c)
		}
	}
	script := func(name string, with ...string) []string {
		return append(with, filepath.Join(repo(), "test", "corners", "clients", name))
	}
	add("Go SDK", []string{goClient()}, "streamable", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
	add("Go SDK", []string{goClient()}, "sse", "2024-11-05", "2025-11-25")

	add("TypeScript SDK 1", script("typescript1.mjs", node()), "streamable", "2025-11-25")
	add("TypeScript SDK 1", script("typescript1.mjs", node()), "sse", "2025-11-25")
	add("TypeScript SDK 2", script("typescript2.mjs", node()), "streamable", "2025-03-26", "2025-11-25", "2026-07-28")
	add("TypeScript SDK 2 by itself", script("typescript2.mjs", "env", "AUTO=1", node()), "streamable", "2026-07-28")
	add("TypeScript SDK 2", script("typescript2.mjs", node()), "sse", "2024-11-05")

	add("Python SDK 1", script("python1.py", python("1")), "streamable", "2025-11-25")
	add("Python SDK 1", script("python1.py", python("1")), "sse", "2025-11-25")
	add("Python SDK 2", script("python2.py", "env", "MODE=legacy", python("2")), "streamable", "2025-11-25")
	add("Python SDK 2", script("python2.py", "env", "MODE=2026-07-28", python("2")), "streamable", "2026-07-28")
	add("Python SDK 2 by itself", script("python2.py", "env", "MODE=auto", python("2")), "streamable", "2026-07-28")
	add("Python SDK 2", script("python2.py", "env", "MODE=legacy", python("2")), "sse", "2025-11-25")

	add("Inspector", script("inspector.mjs", node()), "streamable", "2025-11-25", "2026-07-28")
	return all
}

// cannot returns the reason why a client cannot do a step directly at a maker's server, ""
// if it can.
func cannot(c client, maker, step string) string {
	switch {
	case strings.HasPrefix(c.name, "Inspector"):
		return inspectorCannot[step]
	case step == "roots" && (maker == python2 || maker == typescript2) && strings.HasPrefix(c.name, "Go SDK") && c.version >= statelessVersion:
		return "it does not understand a question without params, which these SDKs ask"
	case step == "server" && c.name == "Python SDK 2, 2026-07-28":
		return "told its version, it never asks the server who it is"
	}
	return ""
}

// inspectorCannot are the steps that the Inspector's command line does not support.
var inspectorCannot = map[string]string{
	"resources":        "as tools",
	"completion":       "it has no such method",
	"region":           "as echo",
	"spoken":           "as echo",
	"failing tool":     "it ends with a status of its own instead of the result",
	"unknown tool":     "it looks into the list and never asks the server",
	"progress":         "it shows no progress",
	"log":              "it shows no log messages",
	"sample":           "it answers no questions",
	"elicit":           "it answers no questions",
	"roots":            "it has no roots",
	"missing resource": "it shows the message without the code",
	"updated":          "it ends after one request",
	"unsubscribed":     "it ends after one request",
	"list changed":     "it ends after one request",
	"cancelled":        "it cancels nothing",
	"afterwards":       "it ends after one request",
}
