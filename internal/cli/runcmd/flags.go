package runcmd

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// addFlags declares the flags that work in this version.
func addFlags(f *pflag.FlagSet, o *options) {
	f.StringVar(&o.name, "name", "", "Workload name (default: auto-generated from image)")
	f.StringVar(&o.group, "group", manager.DefaultGroup, "Group the workload belongs to")
	f.StringSliceVar(&o.clients, "client", nil, "Add the workload to these of the clients that are set up, or to none; repeatable (default: all)")
	f.BoolVarP(&o.foreground, "foreground", "f", false, "Block until the container exits")
	f.StringVar(&o.fromConfig, "from-config", "", "Load an exported configuration file")
	f.StringArrayVarP(&o.env, "env", "e", nil, "Environment variable, format KEY=VALUE; KEY alone takes your own")
	f.StringArrayVar(&o.secrets, "secret", nil, "Secret from the secrets manager set as an environment variable, format NAME,target=TARGET; repeatable, see thv secret. A TARGET such as oidc-client-secret is the value of that flag")
	f.StringVar(&o.envFile, "env-file", "", "Load variables from one file")
	f.StringVar(&o.envFileDir, "env-file-dir", "", "Load variables from all files in a directory")
	f.StringArrayVarP(&o.labels, "label", "l", nil, "Container label, format key=value")
	f.StringArrayVarP(&o.volumes, "volume", "v", nil, "Mount, format host-path:container-path[:ro]")
	f.StringArrayVarP(&o.ports, "publish", "p", nil, "Port publishing, format hostPort:containerPort on the loopback address, or ADDRESS:hostPort:containerPort")
	f.BoolVar(&o.ignoreGlobally, "ignore-globally", true, "Load global ignore patterns from the ignore file in the user configuration directory")
	f.BoolVar(&o.printOverlays, "print-resolved-overlays", false, "Debug: show resolved container paths for tmpfs overlays")
	f.BoolVar(&o.dryRun, "dry-run", false, "Show what would run, and start nothing")
	f.StringVar(&o.network, "network", "", "Container network (for example host)")
	f.BoolVar(&o.isolateNetwork, "isolate-network", false, "Isolate container network from the host: the server connects only to what its permission profile lists; see thv connections")
	f.BoolVar(&o.allowGateway, "allow-docker-gateway", false, "Allow outbound connections to the container runtime's gateway host names and default bridge gateway address (these are blocked by default even when insecure_allow_all is enabled); applies only with --isolate-network")
	f.StringVar(&o.imageVerification, "image-verification", workload.VerifyWarn, "warn, enabled or disabled: check who signed the image, by the registry's provenance or image-policy.yaml; with enabled, an image that is not verified does not run")
	f.StringVar(&o.profile, "permission-profile", "", "none, network, or a path to a JSON file (default: registry's profile, or network if the registry gives none)")
	f.StringVar(&o.caCert, "ca-cert", "", "Custom CA certificate file for container builds")
	f.StringVar(&o.runtimeImage, "runtime-image", "", "Override the base image for protocol schemes; for go, the image that compiles")
	f.StringSliceVar(&o.addPackages, "runtime-add-package", nil, "Extra packages in builder and runtime stages; repeatable. A go:// program then runs on --runtime-image or debian:bookworm-slim")
	f.StringVar(&o.transport, "transport", "", "sse, streamable-http or stdio (default: the registry's, the image's, or found out)")
	f.StringVar(&o.proxyMode, "proxy-mode", "streamable-http", "Proxy mode for stdio: streamable-http or sse (sse is deprecated and will be removed)")
	f.StringVar(&o.host, "host", "127.0.0.1", "Host for the HTTP proxy to listen on")
	f.IntVar(&o.proxyPort, "proxy-port", 0, "Host port for the proxy (default: derived from the name, and kept)")
	f.StringVar(&o.targetHost, "target-host", "127.0.0.1", "Host to forward to (SSE or streamable HTTP only)")
	f.IntVar(&o.targetPort, "target-port", 0, "Container port (SSE or streamable HTTP only)")
	f.StringVar(&o.endpointPrefix, "endpoint-prefix", "", "Path prefix prepended to SSE endpoint URLs")
	f.BoolVar(&o.trustProxyHeaders, "trust-proxy-headers", false, "Trust X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Port, X-Forwarded-Prefix")
	f.StringSliceVar(&o.allowedHosts, "allowed-hosts", nil, "Names, with or without a port, under which the proxy is reached besides localhost and its addresses")
	f.DurationVar(&o.sessionTTL, "session-ttl", 0, "Session inactivity timeout (for example 30m, 2h); 2h when zero or unset")
	f.StringVar(&o.memory, "memory", "", "Memory limit of the container, such as 512m or 4g (default 2g)")
	f.Float64Var(&o.cpus, "cpus", 0, "Limit of processors, such as 1.5 (default: none)")
	f.Int64Var(&o.pidsLimit, "pids-limit", 0, "Processes and threads that the container may have (default 1024)")
	f.StringVar(&o.diskLimit, "disk-limit", "", "What the server may write in its container, outside of mounts, such as 500m or 20g, or none (default 10g); one that writes more is stopped")
	f.IntVar(&o.maxProcesses, "max-processes", 0, "Processes of a stdio server that may run at the same time (1 to 1024); 32 when unset")
	f.StringSliceVar(&o.tools, "tools", nil, "Filter tools (comma-separated names); repeatable. Clients see and can call only these; the names are those of --tools-override, where it gives any")
	f.StringVar(&o.toolsOverride, "tools-override", "", `Path to JSON file overriding tool names and descriptions: {"toolsOverride": {"SERVER'S NAME": {"name": "...", "description": "..."}}}`)
	f.StringArrayVar(&o.webhooks, "webhook-config", nil, "Webhook configuration file; repeatable, configurations are merged (JSON or YAML)")
	f.BoolVar(&o.enableAudit, "enable-audit", false, "Audit logging with default configuration; thv logs NAME --audit shows it")
	f.StringVar(&o.auditConfig, "audit-config", "", "Audit configuration file path (JSON)")
	f.StringVar(&o.authzConfig, "authz-config", "", "Authorization configuration file path: Cedar policies on tools, prompts and resources, JSON or YAML; see thv policy check")
	f.BoolVar(&o.pinTools, "pin-tools", false, "Hide tools that change after they were first seen, and new ones, until thv tools accept NAME")
	f.BoolVar(&o.stateless, "stateless", false, "Declare the server stateless (POST-only, no SSE)")
	f.StringVar(&o.caBundle, "thv-ca-bundle", "", "CA bundle for the tool's own HTTP operations (JWKS, OIDC discovery); also for a remote server")
	f.StringVar(&o.authFile, "auth", "", "File with an MCPExternalAuthConfig resource: how the gateway authenticates at the server (YAML or JSON); its secrets are those of the secrets manager named NAME/KEY; see thv auth check")
	addAuthFlags(f, &o.auth)
	addTelemetryFlags(f, &o.telemetry)
	addServerFlags(f, &o.server)
}

// conflicts reports flags that do not go with --from-config.
func (o *options) conflicts(flags *pflag.FlagSet) []error {
	if o.fromConfig == "" {
		return nil
	}
	var with []string
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "from-config", "foreground", "debug", "name", "output", "print-resolved-overlays", "dry-run",
			// the values of the secrets that the file refers to
			"env", "env-file", "secret", "auth", "remote-forward-headers-secret", "oidc-client-secret", "remote-auth-client-secret", "remote-auth-bearer-token", "remote-auth-skip-browser", "remote-auth-timeout", "token-exchange-client-secret", "otel-headers":
		default:
			with = append(with, "--"+f.Name)
		}
	})
	if len(o.args) > 0 {
		with = append(with, "arguments after --")
	}
	if len(with) == 0 {
		return nil
	}
	return []error{fmt.Errorf("--from-config holds the whole configuration; it cannot go with %s (change the file instead)", strings.Join(with, ", "))}
}

// workingDir returns the directory that relative paths are resolved against.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	return dir, nil
}
