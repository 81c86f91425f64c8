package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/webhook"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Config is an error when a resource that others refer to is not valid. It is the one check:
// the admission webhook and the reconcilers use it. Kinds without rules beside their schema
// are valid.
func Config(object client.Object) error {
	var err error
	switch o := object.(type) {
	case *v1beta1.MCPExternalAuthConfig:
		return aws.Validate(&o.Spec)
	case *v1beta1.MCPOIDCConfig:
		err = OIDC(o)
	case *v1beta1.MCPToolConfig:
		err = Tools(o).Config().Validate()
	case *v1beta1.MCPTelemetryConfig:
		_, err = Telemetry(o)
	case *v1beta1.MCPAuthzConfig:
		_, err = Authz(o)
	case *v1beta1.MCPWebhookConfig:
		_, err = Webhooks(o)
	}
	return err
}

// secretRef is the reference of a Spec to a key of a Secret.
func secretRef(r v1beta1.SecretRef) string { return secret.SharedRef(r.String()) }

// secretPath is where the gateway has a key of a Secret.
func secretPath(r *v1beta1.SecretRef) string {
	if r == nil {
		return ""
	}
	return render.SecretsDir + "/" + r.String()
}

// bundlePath is where the gateway has authorities.
func bundlePath(r *v1beta1.CABundleRef) string {
	if r == nil || r.ConfigMapRef == nil {
		return ""
	}
	return render.ConfigMapsDir + "/" + r.ConfigMapRef.Name + "/" + r.ConfigMapRef.Key
}

// OIDC is an error when an issuer is not valid for any audience.
func OIDC(o *v1beta1.MCPOIDCConfig) error {
	if o.Spec.Type == v1beta1.OIDCInlineType && o.Spec.Inline == nil {
		return errors.New("spec.inline: is required for type inline")
	}
	s := &workload.Spec{Name: "a", Auth: auth(o, &v1beta1.OIDCConfigRef{Audience: "a"})}
	provider := s.Provider(nil)
	if err := provider.Validate(); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}

// auth is how clients are authenticated by tokens of an issuer.
func auth(o *v1beta1.MCPOIDCConfig, ref *v1beta1.OIDCConfigRef) *workload.Auth {
	a := &workload.Auth{Audience: ref.Audience, Scopes: ref.Scopes, ResourceURL: ref.ResourceURL}
	if x := o.Spec.Inline; x != nil {
		a.IssuerURL, a.JWKSURL, a.IntrospectionURL = x.Issuer, x.JWKSURL, x.IntrospectionURL
		a.AllowPrivateIP, a.AllowHTTP = x.JWKSAllowPrivateIP, x.InsecureAllowHTTP
		a.ClientID = x.ClientID
		if x.ClientSecretRef != nil {
			a.ClientSecret = secretRef(*x.ClientSecretRef)
		}
		return a
	}
	x := o.Spec.KubernetesServiceAccount
	if x == nil {
		x = &v1beta1.ServiceAccountOIDC{}
	}
	a.IssuerURL, a.JWKSURL, a.IntrospectionURL = x.Issuer, x.JWKSURL, x.IntrospectionURL
	if a.IssuerURL == "" {
		a.IssuerURL = v1beta1.DefaultServiceAccountIssuer
	}
	// The API server has a private address in nearly every cluster.
	a.AllowPrivateIP = true
	if clusterAuth(o) {
		a.AuthTokenFile = render.ClusterToken
	}
	return a
}

// clusterAuth reports whether the gateway authenticates at the API server of its cluster.
func clusterAuth(o *v1beta1.MCPOIDCConfig) bool {
	if o.Spec.Type != v1beta1.OIDCServiceAccountType {
		return false
	}
	x := o.Spec.KubernetesServiceAccount
	return x == nil || x.UseClusterAuth == nil || *x.UseClusterAuth
}

// Tools are the tools that clients see.
func Tools(o *v1beta1.MCPToolConfig) workload.Tools {
	t := workload.Tools{Filter: o.Spec.ToolsFilter}
	for name, override := range o.Spec.ToolsOverride {
		if t.Override == nil {
			t.Override = map[string]toolset.Override{}
		}
		t.Override[name] = toolset.Override{Name: override.Name, Description: override.Description}
	}
	return t
}

// Telemetry is where measurements go; nil for nowhere.
func Telemetry(o *v1beta1.MCPTelemetryConfig) (*telemetry.Config, error) {
	c := &telemetry.Config{Prometheus: o.Spec.Prometheus != nil && o.Spec.Prometheus.Enabled}
	x := o.Spec.OpenTelemetry
	if x == nil || !x.Enabled {
		if !c.Prometheus {
			return nil, nil
		}
		return c, c.Validate()
	}
	tracing, metrics := x.Tracing != nil && x.Tracing.Enabled, x.Metrics != nil && x.Metrics.Enabled
	if x.Endpoint == "" {
		return nil, errors.New("spec.openTelemetry.endpoint: is required when enabled")
	}
	c.Attributes, c.LegacyAttributes = x.ResourceAttributes, x.UseLegacyAttributes
	if tracing || metrics {
		c.Endpoint, c.Insecure, c.Tracing, c.Metrics = x.Endpoint, x.Insecure, &tracing, &metrics
		for _, header := range x.SensitiveHeaders {
			if c.Headers == nil {
				c.Headers = map[string]string{}
			}
			if header.SecretKeyRef != nil {
				c.Headers[header.Name] = secretRef(*header.SecretKeyRef)
			}
		}
	}
	if tracing && x.Tracing.SamplingRate != "" {
		rate, err := strconv.ParseFloat(x.Tracing.SamplingRate, 64)
		if err != nil {
			return nil, fmt.Errorf("spec.openTelemetry.tracing.samplingRate: %q is not a number", x.Tracing.SamplingRate)
		}
		c.SamplingRate = &rate
	}
	if !tracing && !metrics && !c.Prometheus {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("spec.openTelemetry: %w", err)
	}
	return c, nil
}

// Authz are policies.
func Authz(o *v1beta1.MCPAuthzConfig) (*policy.Config, error) {
	if o.Spec.Config == nil {
		return nil, errors.New("spec.config: is required")
	}
	file, err := json.Marshal(map[string]any{"version": "1.0", "type": o.Spec.Type, "cedar": json.RawMessage(o.Spec.Config.Raw)})
	if err != nil {
		return nil, fmt.Errorf("spec.config: %w", err)
	}
	config, err := runflag.ParsePolicy(file, ".json")
	if err != nil {
		return nil, fmt.Errorf("spec.config: %w", err)
	}
	return config, nil
}

// inlinePolicy are the policies of a workload of its own. content is that of the ConfigMap
// to which they refer.
func inlinePolicy(x *v1beta1.AuthzConfig, content string) (*policy.Config, error) {
	if x.Inline == nil {
		c, err := runflag.ParsePolicy([]byte(content), ".json")
		if err != nil {
			return nil, fmt.Errorf("spec.authzConfig.configMap: %w", err)
		}
		return merged(c, x), nil
	}
	c := merged(&policy.Config{Policies: x.Inline.Policies, Entities: x.Inline.EntitiesJSON}, x)
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("spec.authzConfig.inline: %w", err)
	}
	return c, nil
}

// merged sets what stands beside the policies.
func merged(c *policy.Config, x *v1beta1.AuthzConfig) *policy.Config {
	if x.GroupClaimName != "" {
		c.GroupClaim = x.GroupClaimName
	}
	if x.RoleClaimName != "" {
		c.RoleClaim = x.RoleClaimName
	}
	if x.GroupEntityType != "" {
		c.GroupType = x.GroupEntityType
	}
	return c
}

// Webhooks are the webhooks that the gateway calls.
func Webhooks(o *v1beta1.MCPWebhookConfig) (*webhook.Config, error) {
	c := &webhook.Config{}
	for _, list := range []struct {
		field string
		from  []v1beta1.Webhook
		to    *[]webhook.Hook
	}{{"validating", o.Spec.Validating, &c.Validating}, {"mutating", o.Spec.Mutating, &c.Mutating}} {
		for _, x := range list.from {
			hook := webhook.Hook{Name: x.Name, URL: x.URL, FailurePolicy: x.FailurePolicy, HMACSecretRef: secretPath(x.HMACSecretRef)}
			if hook.FailurePolicy == "" {
				hook.FailurePolicy = webhook.Fail
			}
			if x.Timeout != "" {
				d, err := time.ParseDuration(x.Timeout)
				if err != nil {
					return nil, fmt.Errorf("spec.%s[%s].timeout: %q is not a duration such as 5s", list.field, x.Name, x.Timeout)
				}
				hook.Timeout = webhook.Timeout(d)
			}
			if t := x.TLSConfig; t != nil {
				hook.TLS = &webhook.TLS{
					CABundlePath: secretPath(t.CASecretRef), ClientCertPath: secretPath(t.ClientCertSecretRef), ClientKeyPath: secretPath(t.ClientKeySecretRef),
					InsecureSkipVerify: t.InsecureSkipVerify,
				}
			}
			*list.to = append(*list.to, hook)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return c, nil
}
