package mcp

import "slices"

// Version is a protocol version, a date. Versions compare as strings.
type Version string

// The supported versions (MCP, Versioning).
const (
	V20241105 Version = "2024-11-05"
	V20250326 Version = "2025-03-26"
	V20250618 Version = "2025-06-18"
	V20251125 Version = "2025-11-25"
	V20260728 Version = "2026-07-28"
)

// Versions of the session era, newest first: a connection starts with initialize, and its
// version holds for the whole session.
var sessionVersions = []Version{V20251125, V20250618, V20250326, V20241105}

// SessionVersions returns the versions of the session era, newest first.
func SessionVersions() []Version { return slices.Clone(sessionVersions) }

// StatelessVersions returns the versions of the stateless era, newest first.
func StatelessVersions() []Version { return []Version{V20260728} }

// LatestStateless is the newest version of the stateless era.
const LatestStateless = V20260728

// Versions returns all supported versions, newest first.
func Versions() []Version { return append(StatelessVersions(), sessionVersions...) }

// LatestSession is the newest version of the session era.
const LatestSession = V20251125

// IsSession reports whether v is a known version of the session era.
func (v Version) IsSession() bool { return slices.Contains(sessionVersions, v) }

// IsStateless reports whether v is of the stateless era (2026-07-28 and later).
func (v Version) IsStateless() bool { return v >= V20260728 }
