// Package aws signs requests to an AWS service as a role of the caller: AWS Signature
// Version 4 with temporary credentials, which AWS Security Token Service (STS) issues for the
// caller's token (AssumeRoleWithWebIdentity).
//
// The caller's claims determine the role ([Roles]) and the name of the session, which AWS
// records with each request. Credentials are kept per token, role and session name until
// shortly before they expire. They are in memory only, and in no error and no log line.
//
// A request of the gateway's own, without a caller, is sent without a signature.
package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/credential/kept"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds of what is kept.
const (
	// assumeTime bounds one request for credentials, with its second attempt.
	assumeTime = 15 * time.Second
	// maxKept bounds the credentials that are kept; beyond it, one is dropped for each new
	// one.
	maxKept = 4096
	// maxMargin is how long before their expiry credentials are used no more; for
	// short-lived ones it is a fifth of the lifetime.
	maxMargin = 5 * time.Minute
	// refusedTime and failedTime are how long a refusal, and the failure of STS, are the
	// outcome of further requests with the same token.
	refusedTime = 5 * time.Second
	failedTime  = time.Second
)

// Config configures a [Credential].
type Config struct {
	// Spec is valid.
	Spec *externalauth.AWSSTS
	// Upstream has the tokens of Spec.SubjectProviderName; nil without one.
	Upstream credential.Upstream
	// Endpoint is the URL of STS: HTTPS, or HTTP on this machine. "" is that of the region.
	Endpoint string
	// CAFiles are trusted beside the system's authorities, for requests to STS.
	CAFiles []string
	Log     *slog.Logger
}

// Credential signs requests. It implements [credential.Signer] and [credential.Renewer].
type Credential struct {
	spec     externalauth.AWSSTS
	upstream credential.Upstream
	roles    *Roles
	sts      *tokenService
	signer   *v4.Signer
	log      *slog.Logger
	now      func() time.Time
	kept     *kept.Cache[awssdk.Credentials]
}

var (
	_ credential.Signer  = (*Credential)(nil)
	_ credential.Renewer = (*Credential)(nil)
)

// New returns the Credential of a configuration. It sends no request. Its error is a matcher
// or a file that cannot be used.
func New(cfg Config) (*Credential, error) {
	roles, err := Compile(cfg.Spec)
	if err != nil {
		return nil, err
	}
	if cfg.Spec.SubjectProviderName != "" && cfg.Upstream == nil {
		return nil, errors.New("there is no upstream provider " + cfg.Spec.SubjectProviderName)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Credential{spec: withDefaults(cfg.Spec), upstream: cfg.Upstream, roles: roles, log: cfg.Log, now: time.Now}
	c.signer = v4.NewSigner(func(o *v4.SignerOptions) {
		// Every service but S3 encodes the path once more (AWS Signature Version 4, create a
		// canonical request).
		o.DisableURIPathEscaping = c.spec.Service == "s3"
	})
	if c.sts, err = newTokenService(cfg); err != nil {
		return nil, err
	}
	c.kept = kept.New[awssdk.Credentials](maxKept, assumeTime, func() time.Time { return c.now() })
	return c, nil
}

// Apply implements [credential.Credential]. It sets nothing: the signature covers the headers
// that other credentials set.
func (c *Credential) Apply(context.Context, http.Header) error { return nil }

// ofSignature are the headers that a signature sets. Those of an earlier attempt are removed.
var ofSignature = []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"}

// Headers returns the names of the headers that a [Credential] sets.
func Headers() []string { return slices.Clone(ofSignature) }

// Sign implements [credential.Signer]. Its error has status 401 when the caller's token is at
// fault, 403 when no role is for the caller, and 503 when STS cannot be used.
func (c *Credential) Sign(r *http.Request) error {
	for _, name := range ofSignature {
		r.Header.Del(name)
	}
	credentials, err := c.credentials(r.Context())
	if err != nil || !credentials.HasKeys() {
		return err
	}
	sum, err := bodySum(r)
	if err != nil {
		return failure(http.StatusInternalServerError, "the request to the server cannot be signed")
	}
	r.Header.Set("X-Amz-Content-Sha256", sum)
	if err := c.signer.SignHTTP(r.Context(), credentials, r, sum, c.spec.Service, c.spec.Region, c.now()); err != nil {
		c.log.Error("a request cannot be signed", "error", err)
		return failure(http.StatusInternalServerError, "the request to the server cannot be signed")
	}
	return nil
}

// Renew implements [credential.Renewer]: credentials that the service rejects as expired or
// unknown are requested anew, once. A role without permission is no reason for it.
func (c *Credential) Renew(ctx context.Context, h http.Header, rejected *http.Response) (bool, error) {
	if rejected.StatusCode != http.StatusUnauthorized && !expiredAtService(rejected.Header) {
		return false, nil
	}
	id, err := c.identify(ctx)
	if err != nil || id == nil {
		return false, err
	}
	used := h.Get("X-Amz-Security-Token")
	return c.kept.Drop(id.key(), func(kept awssdk.Credentials) bool { return kept.SessionToken == used }, refusedTime), nil
}

// expiredAtService reports whether an AWS service rejects the credentials themselves (AWS
// common errors; the header has the name of the error, after which a colon may follow).
func expiredAtService(h http.Header) bool {
	name, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	switch name {
	case "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException":
		return true
	}
	return false
}

// identity is what credentials are requested for.
type identity struct{ token, role, session string }

func (i *identity) key() kept.Key { return kept.KeyOf(i.token, i.role, i.session) }

// identify returns the identity of the caller of ctx; nil for a request of the gateway's own.
func (c *Credential) identify(ctx context.Context) (*identity, error) {
	token, err := credential.SubjectToken(ctx, c.upstream, c.spec.SubjectProviderName, false)
	if err != nil || token == "" {
		return nil, err
	}
	if len(token) > maxToken {
		return nil, failure(http.StatusUnauthorized, "the access token is longer than AWS accepts")
	}
	claims := exchange.CallerOf(ctx).Claims
	role := c.roles.Choose(claims)
	if role == "" {
		return nil, failure(http.StatusForbidden, "the server has no role for this caller")
	}
	session, err := sessionName(c.spec.SessionNameClaim, claims)
	if err != nil {
		return nil, failure(http.StatusUnauthorized, "the session with the server has no name: "+err.Error())
	}
	return &identity{token, role, session}, nil
}

// credentials returns those of the caller of ctx; none for a request of the gateway's own.
func (c *Credential) credentials(ctx context.Context) (awssdk.Credentials, error) {
	id, err := c.identify(ctx)
	if err != nil || id == nil {
		return awssdk.Credentials{}, err
	}
	credentials, err := c.kept.Get(ctx, id.key(), func(ctx context.Context) (awssdk.Credentials, time.Time, error) {
		return c.assume(ctx, id)
	})
	if errors.Is(err, kept.ErrFull) {
		return awssdk.Credentials{}, failure(http.StatusServiceUnavailable, "too many requests for credentials are under way; try again")
	}
	return credentials, err
}

// bodySum returns the SHA-256 of the body that is sent, in hexadecimal digits.
func bodySum(r *http.Request) (string, error) {
	sum := sha256.New()
	if r.Body != nil && r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// failure is the error that the client receives.
func failure(status int, message string) error {
	return &mcp.Error{Code: mcp.CodeServerGone, Status: status, Message: message}
}
