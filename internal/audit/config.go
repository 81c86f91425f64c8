// Package audit is the gateway's stage that records requests: who made it, of which server
// and tool, how it ended and how long it took. It is the outermost stage, so a record has the
// outcome that the client receives. Records are stored by package auditlog.
package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Config selects what is recorded. Its JSON form is the file of --audit-config; the zero
// value records every request, without its data.
type Config struct {
	// Enabled: false switches the audit off.
	Enabled *bool `json:"enabled,omitempty"`
	// Component names the gateway in records; "" is the workload's name.
	Component string `json:"component,omitempty"`
	// EventTypes are the types that are recorded, empty for all. ExcludeEventTypes prevail.
	EventTypes        []string `json:"eventTypes,omitempty"`
	ExcludeEventTypes []string `json:"excludeEventTypes,omitempty"`
	// IncludeRequestData and IncludeResponseData add params and result, redacted and cut
	// after MaxDataSize bytes; 0 is 1024.
	IncludeRequestData  bool `json:"includeRequestData,omitempty"`
	IncludeResponseData bool `json:"includeResponseData,omitempty"`
	MaxDataSize         int  `json:"maxDataSize,omitempty"`
	// DetectApplicationErrors distinguishes errors of the server, and of its tools, from
	// success; nil is true.
	DetectApplicationErrors *bool `json:"detectApplicationErrors,omitempty"`
	// MaxDelegationDepth bounds the actors of a token (RFC 8693 section 4.1) in a record; 0
	// is 10.
	MaxDelegationDepth int `json:"maxDelegationDepth,omitempty"`
	// LogFile is an absolute path; "" is the workload's own audit log.
	LogFile string `json:"logFile,omitempty"`
	// MaxFileSize is the size in MiB at which the file is renamed; 0 is 100.
	MaxFileSize int `json:"maxFileSize,omitempty"`
	// OnFailure is what happens to a request whose record cannot be stored: Continue, the
	// default, or Refuse.
	OnFailure string `json:"onFailure,omitempty"`
}

// Values of Config.OnFailure.
const (
	Continue = "continue"
	Refuse   = "refuse"
)

const (
	defaultDataSize = 1024
	maxDataSize     = 1 << 20
	defaultDepth    = 10
	maxDepth        = 100
	defaultFileSize = 100
)

// On reports whether the audit is switched on.
func (c *Config) On() bool { return c != nil && (c.Enabled == nil || *c.Enabled) }

// Path is the path of the audit log of a workload whose own is given.
func (c *Config) Path(own string) string {
	if c.LogFile != "" {
		return c.LogFile
	}
	return own
}

// FileSize is the size in bytes at which the file is renamed.
func (c *Config) FileSize() int64 {
	if c.MaxFileSize == 0 {
		return defaultFileSize << 20
	}
	return int64(c.MaxFileSize) << 20
}

// Validate returns everything that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("audit: "+format, args...)) }
	for field, list := range map[string][]string{"eventTypes": c.EventTypes, "excludeEventTypes": c.ExcludeEventTypes} {
		for _, t := range list {
			if slices.Contains(EventTypes(), t) {
				continue
			}
			add("%s: there is no event type %q%s", field, t, settings.Suggest(t, EventTypes()))
		}
	}
	if c.MaxDataSize < 0 || c.MaxDataSize > maxDataSize {
		add("maxDataSize %d: choose 0 to %d", c.MaxDataSize, maxDataSize)
	}
	if c.MaxDelegationDepth < 0 || c.MaxDelegationDepth > maxDepth {
		add("maxDelegationDepth %d: choose 0 to %d", c.MaxDelegationDepth, maxDepth)
	}
	if c.MaxFileSize < 0 || c.MaxFileSize > 1<<20 {
		add("maxFileSize %d: choose 1 to %d MiB", c.MaxFileSize, 1<<20)
	}
	if c.LogFile != "" && !filepath.IsAbs(c.LogFile) {
		add("logFile %q is not an absolute path", c.LogFile)
	}
	if !slices.Contains([]string{"", Continue, Refuse}, c.OnFailure) {
		add("onFailure %q: choose continue or refuse", c.OnFailure)
	}
	return errors.Join(errs...)
}

// records reports whether events of a type are recorded.
func (c *Config) records(event string) bool {
	return !slices.Contains(c.ExcludeEventTypes, event) && (len(c.EventTypes) == 0 || slices.Contains(c.EventTypes, event))
}

// eventTypes are the types of records by method; any other method is mcp_request.
var eventTypes = map[string]string{
	mcp.MethodInitialize:            "mcp_initialize",
	mcp.MethodDiscover:              "mcp_discover",
	mcp.MethodPing:                  "mcp_ping",
	mcp.MethodToolsCall:             "mcp_tool_call",
	mcp.MethodToolsList:             "mcp_tools_list",
	mcp.MethodResourcesRead:         "mcp_resource_read",
	mcp.MethodResourcesList:         "mcp_resources_list",
	mcp.MethodResourceTemplatesList: "mcp_resources_list",
	mcp.MethodPromptsGet:            "mcp_prompt_get",
	mcp.MethodPromptsList:           "mcp_prompts_list",
	mcp.MethodSetLevel:              "mcp_logging",
	mcp.MethodComplete:              "mcp_completion",
	mcp.MethodSubscriptionsListen:   "mcp_subscription",
	mcp.MethodResourcesSubscribe:    "mcp_subscription",
	mcp.MethodResourcesUnsubscribe:  "mcp_subscription",
}

const (
	otherRequest = "mcp_request"
	// refusedRequest is a request that was refused before it was read.
	refusedRequest = "http_request"
	toolChange     = "mcp_tool_change"
	// networkConnection is a connection of an isolated server, or one that was refused.
	networkConnection = "network_connection"
	// exceededLimit is a limit that a server has exceeded, for which it was stopped.
	exceededLimit = "limit_exceeded"
)

// unusedTypes are types of existing configurations. They are accepted; nothing is recorded
// under them: notifications and streams are not requests.
var unusedTypes = []string{"mcp_notification", "mcp_roots_list_changed", "sse_connection"}

// EventTypes returns the types that a configuration may have.
func EventTypes() []string {
	all := append([]string{otherRequest, refusedRequest, toolChange, networkConnection, exceededLimit}, unusedTypes...)
	for _, t := range eventTypes {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	slices.Sort(all)
	return all
}
