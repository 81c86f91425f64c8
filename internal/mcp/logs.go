package mcp

import (
	"slices"
)

// logLevels are the levels of log messages, least severe first (MCP, Logging;
// RFC 5424 section 6.2.1).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogRank returns the severity of a log level, 0 for debug. It is negative for a text that
// is not a level.
func LogRank(level string) int { return slices.Index(logLevels, level) }

// GetsLog reports whether the level of the log message m is from or more severe. It is
// false if from is "".
func GetsLog(m *Message, from string) bool {
	if from == "" {
		return false
	}
	level, _, err := LookupString(m.Params, "level")
	return err == nil && LogRank(level) >= LogRank(from)
}
