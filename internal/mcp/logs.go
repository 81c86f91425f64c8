package mcp

import (
	"encoding/json"
	"slices"
)

// logLevels are the levels of log messages, least severe first (MCP, Logging;
// RFC 5424 section 6.2.1).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogRank returns the severity of a log level, 0 for debug. It is negative for a text that
// is not a level.
func LogRank(level string) int { return slices.Index(logLevels, level) }

// LogLevel returns the lowest level of the log messages that a request of the stateless
// era requests in its params, "" for no log messages (MCP 2026-07-28, Logging). The error
// is an *[Error].
func LogLevel(params json.RawMessage) (string, error) {
	level, _, err := LookupString(params, "_meta", MetaLogLevel)
	if err == nil && level != "" && LogRank(level) < 0 {
		err = &Error{Code: CodeInvalidParams, Message: "_meta's " + MetaLogLevel + " is none of the log levels"}
	}
	if err != nil {
		return "", err
	}
	return level, nil
}

// GetsLog reports whether the level of the log message m is from or more severe. It is
// false if from is "".
func GetsLog(m *Message, from string) bool {
	if from == "" {
		return false
	}
	level, _, err := LookupString(m.Params, "level")
	return err == nil && LogRank(level) >= LogRank(from)
}
