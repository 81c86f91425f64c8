package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"golang.org/x/net/http/httpguts"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Bounds of STS (AWS STS API reference, AssumeRoleWithWebIdentity).
const (
	maxToken       = 20000 // characters of WebIdentityToken
	maxAnswer      = 1 << 20
	defaultSession = 3600 // seconds
	attempts       = 2
	pause          = 200 * time.Millisecond // between attempts
)

// withDefaults returns a copy of spec with the defaults of its fields.
func withDefaults(spec *externalauth.AWSSTS) externalauth.AWSSTS {
	s := *spec
	s.Service = cmp.Or(s.Service, "aws-mcp")
	s.RoleClaim = cmp.Or(s.RoleClaim, "groups")
	s.SessionNameClaim = cmp.Or(s.SessionNameClaim, "sub")
	if s.SessionDuration == nil {
		s.SessionDuration = awssdk.Int32(defaultSession)
	}
	return s
}

// tokenService sends requests to STS. They are not signed: the token is the proof.
type tokenService struct {
	client  *sts.Client
	options sts.Options
}

// with returns a tokenService that sends its requests by client.
func (s *tokenService) with(client sts.HTTPClient) *tokenService {
	options := s.options
	options.HTTPClient = client
	return &tokenService{sts.New(options), options}
}

func newTokenService(cfg Config) (*tokenService, error) {
	client, err := netguard.Client(netguard.Options{CAFiles: cfg.CAFiles, AllowPrivate: true, AllowLoopback: true})
	if err != nil {
		return nil, err
	}
	options := sts.Options{
		Region: cfg.Spec.Region, Credentials: awssdk.AnonymousCredentials{},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return pause, nil })
			o.RateLimiter = ratelimit.None
			o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{"IDPCommunicationError": {}}})
		}),
	}
	if cfg.Endpoint != "" {
		if err := netguard.CheckEndpoint(cfg.Endpoint); err != nil {
			return nil, fmt.Errorf("the endpoint of STS: %w", err)
		}
		options.BaseEndpoint = &cfg.Endpoint
	}
	return (&tokenService{options: options}).with(bounded{client}), nil
}

// bounded limits what is read of an answer.
type bounded struct{ client *http.Client }

func (b bounded) Do(r *http.Request) (*http.Response, error) {
	resp, err := b.client.Do(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// assume requests credentials for id, and returns until when the outcome is used.
func (c *Credential) assume(ctx context.Context, id *identity) (awssdk.Credentials, time.Time, error) {
	began := c.now()
	out, err := c.sts.client.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: &id.role, RoleSessionName: &id.session, WebIdentityToken: &id.token, DurationSeconds: c.spec.SessionDuration,
	})
	if err != nil {
		return c.refused(id, err)
	}
	credentials, err := usable(out, began)
	if err != nil {
		c.log.Error("the answer of AWS STS cannot be used", "role", id.role, "error", err)
		return awssdk.Credentials{}, c.now().Add(failedTime), failure(http.StatusServiceUnavailable, "AWS issued no usable credentials; try again")
	}
	lifetime := credentials.Expires.Sub(began)
	return credentials, credentials.Expires.Add(-min(maxMargin, lifetime/5)), nil
}

// usable returns the credentials of an answer, if they can be sent.
func usable(out *sts.AssumeRoleWithWebIdentityOutput, now time.Time) (awssdk.Credentials, error) {
	if out == nil || out.Credentials == nil || out.Credentials.Expiration == nil {
		return awssdk.Credentials{}, errors.New("it has no credentials with an expiry")
	}
	c := awssdk.Credentials{
		AccessKeyID: awssdk.ToString(out.Credentials.AccessKeyId), SecretAccessKey: awssdk.ToString(out.Credentials.SecretAccessKey),
		SessionToken: awssdk.ToString(out.Credentials.SessionToken), CanExpire: true, Expires: *out.Credentials.Expiration,
	}
	switch {
	case !c.HasKeys() || c.SessionToken == "":
		return awssdk.Credentials{}, errors.New("its credentials are not complete")
	case !httpguts.ValidHeaderFieldValue(c.AccessKeyID) || !httpguts.ValidHeaderFieldValue(c.SessionToken):
		return awssdk.Credentials{}, errors.New("its credentials cannot be sent in headers")
	case !c.Expires.After(now):
		return awssdk.Credentials{}, errors.New("its credentials have expired already")
	}
	return c, nil
}

// refusal is what an error of STS means for the caller.
type refusal struct {
	status  int
	message string
}

// refusals are by the codes of errors (AWS STS API reference, AssumeRoleWithWebIdentity,
// Errors, and Common Errors).
var refusals = map[string]refusal{
	"ExpiredTokenException": {http.StatusUnauthorized, "AWS refuses the access token: it has expired"},
	"ExpiredToken":          {http.StatusUnauthorized, "AWS refuses the access token: it has expired"},
	"InvalidIdentityToken":  {http.StatusUnauthorized, "AWS refuses the access token"},
	"IDPRejectedClaim":      {http.StatusUnauthorized, "AWS refuses the access token: the identity provider rejects its claims"},
	"AccessDenied":          {http.StatusForbidden, "AWS does not allow this caller to assume the role"},
	"AccessDeniedException": {http.StatusForbidden, "AWS does not allow this caller to assume the role"},
}

// refused returns the error for the caller of a request that STS did not fulfil. What is not
// about the token or the role is an outage, or a fault of the configuration.
func (c *Credential) refused(id *identity, err error) (awssdk.Credentials, time.Time, error) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		c.log.Error("AWS STS cannot be reached", "role", id.role, "error", oauth.Hide(err.Error(), id.token))
		return awssdk.Credentials{}, c.now().Add(failedTime), failure(http.StatusServiceUnavailable, "AWS cannot be reached for credentials; try again")
	}
	code := oauth.Hide(api.ErrorCode(), id.token)
	known, found := refusals[api.ErrorCode()]
	if !found {
		// A validation error repeats the values of the request, so its message is left out.
		c.log.Error("AWS STS issued no credentials", "role", id.role, "code", code)
		return awssdk.Credentials{}, c.now().Add(failedTime), failure(http.StatusServiceUnavailable, "AWS issued no credentials; try again, or see the gateway's log")
	}
	c.log.Warn("AWS STS refused a role", "role", id.role, "session", id.session, "code", code, "error", oauth.Hide(api.ErrorMessage(), id.token))
	return awssdk.Credentials{}, c.now().Add(refusedTime), failure(known.status, known.message)
}
