package clientconfig

import "github.com/toolhaven/toolhaven/internal/clientconfig/entries"

// Containers of entries in JSON.
var (
	mcpServers = entries.Place{Format: entries.JSON, Path: []string{"mcpServers"}}
	servers    = entries.Place{Format: entries.JSON, Path: []string{"servers"}}
	mcp        = entries.Place{Format: entries.JSON, Path: []string{"mcp"}}
)

// command is the form of a program that most clients share.
var command = form{command: "command", args: "args"}

// at returns the form with the URL in a member.
func at(member string) form { return form{url: member} }

// with returns f with another member.
func (f form) with(name string, value any) form {
	f.more = append(append([]entries.Field{}, f.more...), entries.Field{Name: name, Value: value})
	return f
}

// typed returns f with the member "type".
func (f form) typed(value string) form { return f.with("type", value) }

// known are the clients, sorted by name. Paths and members are those of the clients'
// own documentation, August 2026.
var known = []*Client{
	{
		Name: "amp", Title: "Amp", files: []location{{base: dotConfig, path: "amp/settings.json"}},
		place: entries.Place{Format: entries.JSON, Path: []string{"amp.mcpServers"}},
		http:  at("url"), sse: at("url"), stdio: command,
	},
	{
		Name: "antigravity", Title: "Antigravity", files: []location{{path: ".gemini/antigravity/mcp_config.json"}},
		place: mcpServers, http: at("serverUrl"), stdio: command,
	},
	{
		Name: "claude-code", Title: "Claude Code", files: []location{{path: ".claude.json"}}, marks: []location{{path: ".claude"}}, homeVar: "CLAUDE_CONFIG_DIR",
		place: mcpServers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", files: []location{{base: appData, path: "Claude/claude_desktop_config.json"}},
		place: mcpServers, stdio: command,
	},
	{
		Name: "cline", Title: "Cline", files: []location{{base: appData, path: "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"}},
		marks: []location{{base: appData, path: "Code/User/globalStorage/saoudrizwan.claude-dev"}},
		place: mcpServers, http: at("url").typed("streamableHttp"), sse: at("url").typed("sse"), stdio: command,
	},
	{
		Name: "codex", Title: "Codex", files: []location{{path: ".codex/config.toml"}}, homeVar: "CODEX_HOME",
		place: entries.Place{Format: entries.TOML, Path: []string{"mcp_servers"}}, http: at("url"), stdio: command,
	},
	{
		Name: "continue", Title: "Continue", files: []location{{path: ".continue/config.yaml"}},
		place: entries.Place{Format: entries.YAML, Path: []string{"mcpServers"}, Listed: true},
		http:  at("url").typed("streamable-http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "copilot-cli", Title: "GitHub Copilot CLI", files: []location{{path: ".copilot/mcp-config.json"}},
		place: mcpServers, http: at("url").typed("http").with("tools", []string{"*"}), sse: at("url").typed("sse").with("tools", []string{"*"}),
		stdio: command.typed("local").with("tools", []string{"*"}),
	},
	{
		Name: "crush", Title: "Crush", files: []location{{base: dotConfig, path: "crush/crush.json"}},
		place: mcp, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "cursor", Title: "Cursor", files: []location{{path: ".cursor/mcp.json"}},
		place: mcpServers, http: at("url"), sse: at("url"), stdio: command,
	},
	{
		Name: "factory", Title: "Factory Droid", files: []location{{path: ".factory/mcp.json"}},
		place: mcpServers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "gemini-cli", Title: "Gemini CLI", files: []location{{path: ".gemini/settings.json"}},
		place: mcpServers, http: at("httpUrl"), sse: at("url").typed("sse"), stdio: command,
	},
	{
		Name: "goose", Title: "Goose", files: []location{{base: dotConfig, path: "goose/config.yaml", windows: "Block/goose/config/config.yaml"}},
		place: entries.Place{Format: entries.YAML, Path: []string{"extensions"}},
		http:  goose("streamable_http"), sse: goose("sse"),
		stdio: form{command: "cmd", args: "args", named: true, more: goose("stdio").more},
	},
	{
		Name: "kimi-cli", Title: "Kimi CLI", files: []location{{path: ".kimi/mcp.json"}},
		place: mcpServers, http: at("url"), stdio: command,
	},
	{
		Name: "kiro", Title: "Kiro", files: []location{{path: ".kiro/settings/mcp.json"}}, marks: []location{{path: ".kiro"}},
		place: mcpServers, http: at("url"), stdio: command,
	},
	{
		Name: "lm-studio", Title: "LM Studio", files: []location{{path: ".lmstudio/mcp.json"}},
		place: mcpServers, http: at("url"), stdio: command,
	},
	{
		Name: "mistral-vibe", Title: "Mistral Vibe", files: []location{{path: ".vibe/config.toml"}}, homeVar: "VIBE_HOME",
		place: entries.Place{Format: entries.TOML, Path: []string{"mcp_servers"}, Listed: true},
		http:  at("url").with("transport", "streamable-http"), stdio: command.with("transport", "stdio"),
	},
	{
		Name: "opencode", Title: "OpenCode", files: []location{{base: dotConfig, path: "opencode/opencode.json"}, {base: dotConfig, path: "opencode/opencode.jsonc"}},
		place: mcp, http: at("url").typed("remote").with("enabled", true), sse: at("url").typed("remote").with("enabled", true),
		stdio: form{command: "command"}.typed("local").with("enabled", true),
	},
	{
		Name: "qoder", Title: "Qoder", files: []location{{path: ".qoder/mcp.json"}},
		place: mcpServers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command,
	},
	{
		Name: "qwen-code", Title: "Qwen Code", files: []location{{path: ".qwen/settings.json"}},
		place: mcpServers, http: at("httpUrl"), sse: at("url"), stdio: command,
	},
	{
		Name: "roo-code", Title: "Roo Code", files: []location{{base: appData, path: "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"}},
		marks: []location{{base: appData, path: "Code/User/globalStorage/rooveterinaryinc.roo-cline"}},
		place: mcpServers, http: at("url").typed("streamable-http"), sse: at("url").typed("sse"), stdio: command,
	},
	{
		Name: "trae", Title: "Trae", files: []location{{base: appData, path: "Trae/User/mcp.json"}},
		place: mcpServers, http: at("url"), stdio: command,
	},
	{
		Name: "vscode", Title: "VS Code", files: []location{{base: appData, path: "Code/User/mcp.json"}},
		place: servers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "vscode-insiders", Title: "VS Code Insiders", files: []location{{base: appData, path: "Code - Insiders/User/mcp.json"}},
		place: servers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "vscode-server", Title: "VS Code Server", files: []location{{path: ".vscode-server/data/User/mcp.json"}}, marks: []location{{path: ".vscode-server"}},
		place: servers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "vscodium", Title: "VSCodium", files: []location{{base: appData, path: "VSCodium/User/mcp.json"}},
		place: servers, http: at("url").typed("http"), sse: at("url").typed("sse"), stdio: command.typed("stdio"),
	},
	{
		Name: "windsurf", Title: "Windsurf", files: []location{{path: ".codeium/windsurf/mcp_config.json"}},
		place: mcpServers, http: at("serverUrl"), sse: at("serverUrl"), stdio: command,
	},
	{
		Name: "windsurf-jetbrains", Title: "Windsurf for JetBrains", files: []location{{path: ".codeium/mcp_config.json"}}, marks: []location{{path: ".codeium/mcp_config.json"}},
		place: mcpServers, http: at("serverUrl"), sse: at("serverUrl"), stdio: command,
	},
	{
		Name: "zed", Title: "Zed", files: []location{{base: dotConfig, path: "zed/settings.json", windows: "Zed/settings.json"}},
		place: entries.Place{Format: entries.JSON, Path: []string{"context_servers"}}, http: at("url"), stdio: command,
	},
}

// goose returns the form of an extension of Goose.
func goose(kind string) form {
	return form{url: "uri", named: true}.typed(kind).with("enabled", true).with("description", "").with("timeout", 300)
}
