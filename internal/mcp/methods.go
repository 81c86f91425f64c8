package mcp

// Methods that fronts, stages and backends handle. All others are forwarded without
// being inspected.
const (
	MethodInitialize = "initialize"
	MethodPing       = "ping"
	MethodDiscover   = "server/discover" // 2026-07-28

	MethodToolsList             = "tools/list"
	MethodToolsCall             = "tools/call"
	MethodPromptsList           = "prompts/list"
	MethodPromptsGet            = "prompts/get"
	MethodResourcesList         = "resources/list"
	MethodResourceTemplatesList = "resources/templates/list"
	MethodResourcesRead         = "resources/read"
	MethodResourcesSubscribe    = "resources/subscribe"
	MethodResourcesUnsubscribe  = "resources/unsubscribe"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodSubscriptionsListen   = "subscriptions/listen" // 2026-07-28
)

// ClientMethods returns the methods of the requests of clients, in any version, without
// extensions.
func ClientMethods() []string {
	return []string{
		MethodInitialize, MethodPing, MethodDiscover, MethodToolsList, MethodToolsCall, MethodPromptsList, MethodPromptsGet,
		MethodResourcesList, MethodResourceTemplatesList, MethodResourcesRead, MethodResourcesSubscribe,
		MethodResourcesUnsubscribe, MethodComplete, MethodSetLevel, MethodSubscriptionsListen,
	}
}

// Requests that servers make.
const (
	MethodSampling    = "sampling/createMessage"
	MethodElicitation = "elicitation/create"
	MethodRootsList   = "roots/list"
)

// ServerMethods returns the methods of the requests of servers that need a capability of
// the client.
func ServerMethods() []string { return []string{MethodSampling, MethodElicitation, MethodRootsList} }

// NeededCapability returns the capability that a client must have declared for a server's
// request of that method, "" for a method that no client accepts (MCP, Client Features).
func NeededCapability(method string) string {
	switch method {
	case MethodSampling:
		return "sampling"
	case MethodElicitation:
		return "elicitation"
	case MethodRootsList:
		return "roots"
	}
	return ""
}

// Notifications.
const (
	NotificationInitialized          = "notifications/initialized"
	NotificationCancelled            = "notifications/cancelled"
	NotificationProgress             = "notifications/progress"
	NotificationMessage              = "notifications/message"
	NotificationToolsChanged         = "notifications/tools/list_changed"
	NotificationPromptsChanged       = "notifications/prompts/list_changed"
	NotificationResourcesChanged     = "notifications/resources/list_changed"
	NotificationResourceUpdated      = "notifications/resources/updated"
	NotificationRootsChanged         = "notifications/roots/list_changed"
	NotificationElicitationCompleted = "notifications/elicitation/complete"
	// The first message of a subscription (2026-07-28).
	NotificationSubscribed = "notifications/subscriptions/acknowledged"
)

// Members of _meta that the stateless era reserves (MCP 2026-07-28, basic). On
// every request:
const (
	MetaPrefix       = "io.modelcontextprotocol/"
	MetaVersion      = MetaPrefix + "protocolVersion"    // required
	MetaCapabilities = MetaPrefix + "clientCapabilities" // required
	MetaClientInfo   = MetaPrefix + "clientInfo"
	MetaLogLevel     = MetaPrefix + "logLevel"
	// The trace context of a request, in any version (W3C Trace Context, W3C Baggage):
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	MetaBaggage     = "baggage"
	// On results:
	MetaServerInfo = MetaPrefix + "serverInfo"
	// On every message of a subscription: the id of its listen request.
	MetaSubscription = MetaPrefix + "subscriptionId"
)
