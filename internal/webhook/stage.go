package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// version is that of the exchange's format.
const version = "v0.1.0"

const (
	maxResponse   = 1 << 20
	maxOperations = 1000
	maxShown      = 256
)

// Stage calls webhooks. It may be used concurrently.
type Stage struct {
	workload             string
	validating, mutating []*caller
	log                  *slog.Logger
}

// caller is a Hook with its HTTP client.
type caller struct {
	Hook
	mutates bool
	client  *http.Client
	key     func() (string, error) // that signs requests; nil signs none
}

// New returns a Stage. caFiles are authorities that are trusted besides the system's. secrets
// returns the value of a secret by its name. The error is for files that cannot be read, such
// as a client certificate, and for secrets that are missing.
func New(cfg Config, workload string, caFiles []string, secrets func(name string) (string, error), log *slog.Logger) (*Stage, error) {
	s := &Stage{workload: workload, log: log}
	var errs []error
	add := func(hooks []Hook, mutates bool) (callers []*caller) {
		for _, h := range hooks {
			c, err := newCaller(h, caFiles, secrets)
			if err != nil {
				errs = append(errs, fmt.Errorf("webhook %q: %w", h.Name, err))
				continue
			}
			c.mutates = mutates
			callers = append(callers, c)
		}
		return callers
	}
	s.mutating, s.validating = add(cfg.Mutating, true), add(cfg.Validating, false)
	return s, errors.Join(errs...)
}

func newCaller(h Hook, caFiles []string, secrets func(string) (string, error)) (*caller, error) {
	// The person who runs the workload chose the URL, so it may have a private address.
	opt := netguard.Options{CAFiles: caFiles, AllowPrivate: true, AllowLoopback: true, Timeout: defaultTimeout}
	if h.Timeout != 0 {
		opt.Timeout = time.Duration(h.Timeout)
	}
	if t := h.TLS; t != nil {
		opt.AllowHTTP, opt.InsecureSkipVerify = t.InsecureSkipVerify, t.InsecureSkipVerify
		opt.ClientCertFile, opt.ClientKeyFile = t.ClientCertPath, t.ClientKeyPath
		if t.CABundlePath != "" {
			opt.CAFiles = append([]string{t.CABundlePath}, caFiles...)
		}
	}
	client, err := netguard.Client(opt)
	if err != nil {
		return nil, err
	}
	c := &caller{Hook: h, client: client}
	if h.HMACSecretRef == "" {
		return c, nil
	}
	c.key = func() (string, error) { return netguard.ReadSecret(h.HMACSecretRef) }
	if name := h.secret(); name != "" {
		c.key = func() (string, error) { return secrets(name) }
	}
	if _, err := c.key(); err != nil {
		return nil, fmt.Errorf("hmac_secret_ref: %w", err)
	}
	return c, nil
}

// Wrap is an [exchange.Stage].
func (s *Stage) Wrap(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		var err error
		for _, c := range s.mutating {
			if x, err = s.mutate(ctx, c, x); err != nil {
				return nil, err
			}
		}
		for _, c := range s.validating {
			_, err := s.call(ctx, c, x)
			if err == nil {
				continue
			}
			if err = s.failed(ctx, c, err, http.StatusForbidden); err != nil {
				return nil, err
			}
		}
		return next(ctx, x)
	}
}

// mutate returns the exchange that a mutating webhook makes of x.
func (s *Stage) mutate(ctx context.Context, c *caller, x *exchange.Exchange) (*exchange.Exchange, error) {
	answer, err := s.call(ctx, c, x)
	if err == nil && len(answer.Patch) > 0 {
		var changed *exchange.Exchange
		if changed, err = patched(x, answer); err == nil {
			return changed, nil
		}
	}
	if err != nil {
		return x, s.failed(ctx, c, err, http.StatusInternalServerError)
	}
	return x, nil
}

// denied is a decision of a webhook, whatever its failure policy.
type denied struct{ err error }

func (d *denied) Error() string { return d.err.Error() }

// failed returns the error for a client whose request a webhook denied, or for which the
// webhook did not respond as it should. It is nil if that is ignored.
func (s *Stage) failed(ctx context.Context, c *caller, err error, status int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // the client cancelled the request
	}
	var d *denied
	if errors.As(err, &d) {
		return d.err
	}
	s.log.Warn("a webhook did not respond as it should", "webhook", c.Name, "ignored", c.FailurePolicy == Ignore, "error", plaintext.Excerpt(err.Error(), maxShown))
	if c.FailurePolicy == Ignore {
		return nil
	}
	code := mcp.CodeInternal
	if status == http.StatusForbidden {
		code = mcp.CodeForbidden
	}
	return &mcp.Error{Code: code, Message: fmt.Sprintf("the webhook %q did not respond as it should, and requests need its permission", c.Name), Status: status}
}

// answer is the response of a webhook. Its other members are ignored.
type answer struct {
	Allowed   *bool             `json:"allowed"`
	Reason    string            `json:"reason"`
	PatchType string            `json:"patch_type"`
	Patch     []json.RawMessage `json:"patch"`
}

// call sends the request of x to a webhook. The error is a *denied, or for any other response
// than a permission.
func (s *Stage) call(ctx context.Context, c *caller, x *exchange.Exchange) (*answer, error) {
	body, err := s.body(x)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.key != nil {
		key, err := c.key()
		if err != nil {
			return nil, fmt.Errorf("hmac_secret_ref: %w", err)
		}
		now := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(mac, "%s.%s", now, body)
		r.Header.Set("X-ToolHive-Timestamp", now)
		r.Header.Set("X-ToolHive-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnprocessableEntity { // the webhook refuses the request as faulty
		if c.mutates {
			return nil, &denied{&mcp.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("the webhook %q refused the request", c.Name), Status: http.StatusUnprocessableEntity}}
		}
		return nil, &denied{exchange.Forbid("denied by the webhook %q", c.Name)}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it responded with the status %d", resp.StatusCode)
	}
	content, err := netguard.ReadBounded(resp.Body, maxResponse)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(content, &a); err != nil {
		return nil, errors.New("its response is not the JSON of a webhook")
	}
	if a.Allowed == nil {
		return nil, errors.New("its response has no member allowed")
	}
	if !*a.Allowed {
		text := fmt.Sprintf("denied by the webhook %q", c.Name)
		if reason := plaintext.Excerpt(a.Reason, maxShown); reason != "" {
			text += ": " + reason
		}
		return nil, &denied{exchange.Forbid("%s", text)}
	}
	return &a, nil
}

// body is the JSON that webhooks receive.
func (s *Stage) body(x *exchange.Exchange) ([]byte, error) {
	type principal struct {
		Subject string         `json:"sub"`
		Issuer  string         `json:"iss"`
		Claims  map[string]any `json:"claims,omitempty"`
	}
	body := struct {
		Version   string          `json:"version"`
		UID       string          `json:"uid"`
		Timestamp string          `json:"timestamp"`
		Principal *principal      `json:"principal"`
		Request   json.RawMessage `json:"mcp_request"`
		Context   map[string]any  `json:"context"`
	}{
		Version: version, UID: rand.Text(), Timestamp: time.Now().UTC().Format(time.RFC3339Nano), Request: x.Request.Encode(),
		Context: map[string]any{"server_name": s.workload, "source_ip": x.Source.Address},
	}
	if c := x.Caller; c != nil {
		body.Principal = &principal{c.Subject, c.Issuer, c.Claims}
	}
	return json.Marshal(body)
}

// patched returns x with the params that a patch makes. A patch changes params, and of them
// all but _meta.
func patched(x *exchange.Exchange, a *answer) (*exchange.Exchange, error) {
	if a.PatchType != "json_patch" {
		return nil, fmt.Errorf("its patch_type is %q; json_patch is supported", plaintext.Excerpt(a.PatchType, 64))
	}
	if len(a.Patch) > maxOperations {
		return nil, fmt.Errorf("its patch has %d operations, more than %d", len(a.Patch), maxOperations)
	}
	const root = "/mcp_request"
	var operations []map[string]any
	for _, raw := range a.Patch {
		var op map[string]any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&op); err != nil {
			return nil, errors.New("its patch has an operation that is not an object")
		}
		for _, member := range []string{"path", "from"} {
			path, given := op[member].(string)
			if member == "from" && op[member] == nil {
				continue
			}
			inside := strings.TrimPrefix(path, root)
			if !given || inside == path || inside != "/params" && !strings.HasPrefix(inside, "/params/") {
				return nil, fmt.Errorf("its patch has the %s %q, which is not in %s/params", member, plaintext.Excerpt(path, 64), root)
			}
			op[member] = inside
		}
		operations = append(operations, op)
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, errors.New("its patch is not a JSON patch")
	}
	before := x.Request.Encode()
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = mcp.MaxEvent
	options.EscapeHTML = false
	after, err := patch.ApplyWithOptions(before, options)
	if err != nil {
		return nil, fmt.Errorf("its patch cannot be applied: %s", plaintext.Excerpt(err.Error(), maxShown))
	}
	m, err := mcp.Parse(after)
	if err != nil {
		return nil, fmt.Errorf("its patch makes a faulty request: %w", err)
	}
	oldMeta, _, err := mcp.Lookup(x.Request.Params, "_meta")
	if err != nil {
		return nil, err
	}
	newMeta, _, err := mcp.Lookup(m.Params, "_meta")
	if err != nil {
		return nil, fmt.Errorf("its patch makes a faulty request: %w", err)
	}
	if !bytes.Equal(oldMeta, newMeta) {
		return nil, errors.New("its patch changes _meta, which belongs to the connection")
	}
	m.ID = x.Request.ID
	changed := *x
	changed.Request = m
	return &changed, nil
}
